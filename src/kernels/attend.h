/* attend.h - what all variants of attention share: the cut of the keys. */
#ifndef FX_ATTEND_H
#define FX_ATTEND_H

/* Keys are taken in spans of this many, beginning at its multiples; each span is summed
 * on its own and spans are merged in order, whoever computed them.  Part of the
 * definition: another number gives other bits. */
#define FX_ATTEND_SPAN 512

#endif
