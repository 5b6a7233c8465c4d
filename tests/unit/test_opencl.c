/* test_opencl.c - kernels as OpenCL C compute on a device (PoCL, for one) what the interpreter computes, bit for bit. */
#include "codegen/opencl.h"
#include "codegen_run.h"
#include "opencl_device.h"

static fx_arena arena;
static opencl cl;

#define NEED_DEVICE() do { if (!opencl_open(&cl)) SKIP("no OpenCL device, such as PoCL"); } while (0)

/* Runs the kernel by a group of 'items' a task on copies of the buffers, and the interpreter on others. */
static int device_differs(fx_kir_kernel *k, void *kernel, uint64_t *args, const run_buffer *buffers, int n, size_t items)
{
    fx_kir_fault fault[2] = { { -1, 0, 0, 0 }, { -1, 0, 0, 0 } };
    void *at[RUN_BUFFERS], *mem[RUN_BUFFERS], *args_mem, *fault_mem;
    fx_kir_interp *x = NULL;
    fx_error err;
    int64_t t0 = 0, tasks;
    int st = 0, bad = 0;
    size_t global;

    if (fx_kir_interp_new(&x, &fx_mem_libc, k, &err) != FORNAX_OK)
        return 1;
    args_mem = cl.clCreateBuffer(cl.context, 1 | 32, (size_t)(k->n_args + 1) * 8, args, &st);
    fault_mem = cl.clCreateBuffer(cl.context, 1 | 32, sizeof(fault[1]), &fault[1], &st);
    for (int i = 0; i < n; i++) {
        size_t bytes = (size_t)buffers[i].n * fx_dtype_size(buffers[i].t);

        mem[i] = cl.clCreateBuffer(cl.context, 1 | 32, bytes, buffers[i].data, &st);
        at[i] = malloc(bytes);
        memcpy(at[i], buffers[i].data, bytes);
        st |= cl.clSetKernelArg(kernel, (unsigned)i + 4, sizeof(void *), &mem[i]);
    }
    tasks = fx_kir_interp_tasks(x, &(fx_kir_launch){ args, at });
    fx_kir_interp_run(x, &(fx_kir_launch){ args, at }, 0, tasks, &fault[0]);
    st |= cl.clSetKernelArg(kernel, 0, sizeof(void *), &args_mem) | cl.clSetKernelArg(kernel, 1, 8, &t0) |
          cl.clSetKernelArg(kernel, 2, 8, &tasks) | cl.clSetKernelArg(kernel, 3, sizeof(void *), &fault_mem);
    global = (size_t)tasks * items;
    st |= cl.clEnqueueNDRangeKernel(cl.queue, kernel, 1, NULL, &global, &items, 0, NULL, NULL);
    st |= cl.clEnqueueReadBuffer(cl.queue, fault_mem, 1, 0, sizeof(fault[1]), &fault[1], 0, NULL, NULL);
    CHECK_EQ_I64(st, 0);
    CHECK((fault[0].op < 0) == (fault[1].op < 0));
    for (int i = 0; i < n; i++) {
        uint8_t *got = malloc((size_t)buffers[i].n * fx_dtype_size(buffers[i].t));

        CHECK_EQ_I64(cl.clEnqueueReadBuffer(cl.queue, mem[i], 1, 0, (size_t)buffers[i].n * fx_dtype_size(buffers[i].t), got, 0, NULL, NULL), 0);
        bad += run_differences("on the device", i, buffers[i].t, buffers[i].n, at[i], got);
        cl.clReleaseMemObject(mem[i]);
        free(got);
        free(at[i]);
    }
    cl.clReleaseMemObject(args_mem);
    cl.clReleaseMemObject(fault_mem);
    fx_kir_interp_free(x);
    return bad;
}

/* Builds the first kernel of a text and runs it. */
static void run_text(const char *text, uint64_t *args, const run_buffer *buffers, int n, size_t items)
{
    fx_kir_module *m = NULL;
    fx_error err = { 0 };
    void *program = NULL, *kernel = NULL;
    fx_buf out;
    char name[100];
    int st;

    fx_arena_init(&arena, &fx_mem_libc, 0);
    fx_buf_init(&out, &fx_mem_libc);
    if (fx_kir_parse(&m, &arena, "test", fx_str_of(text), &err) != FORNAX_OK || fx_kir_check(m->first, &err) != FORNAX_OK ||
        fx_opencl_print(&out, m->first, &err) != FORNAX_OK)
        FXTEST_FAIL("%s", err.text);
    else
        program = opencl_build(&cl, out.p, FX_OPENCL_OPTIONS);
    CHECK(program != NULL);
    if (program) {
        snprintf(name, sizeof(name), "%.*s", FX_STR_ARG(m->first->name));
        kernel = cl.clCreateKernel(program, name, &st);
    }
    if (kernel && device_differs(m->first, kernel, args, buffers, n, items))
        FXTEST_FAIL("%zu work-items: %s", items, text);
    if (kernel)
        cl.clReleaseKernel(kernel);
    if (program)
        cl.clReleaseProgram(program);
    fx_buf_done(&out);
    fx_arena_done(&arena);
}

TEST(ops_and_conversions)
{
    NEED_DEVICE();
    for (size_t i = 0; i < FX_COUNT(all_types); i++) {
        const int64_t n = N_VALUES / 128;
        const int64_t counts[] = { n * 128, n * 128 * 64, n * 128 * 64, n * 128 * 32, n };
        const fx_dtype t[] = { all_types[i], all_types[i], FX_BOOL, FX_F64, FX_I64 };
        run_buffer b[5];
        fx_buf text;

        for (int j = 0; j < 5; j++)
            b[j] = (run_buffer){ t[j], counts[j], calloc((size_t)counts[j], fx_dtype_size(t[j])) };
        fill(all_types[i], b[0].data, 0);
        fx_buf_init(&text, &fx_mem_libc);
        gpu_kernel(&text, all_types[i]);
        run_text(text.p, (uint64_t[]){ (uint64_t)n, 0 }, b, 5, i % 2 ? 1 : 32);
        fx_buf_done(&text);
        for (int j = 0; j < 5; j++)
            free(b[j].data);
    }
    opencl_close(&cl);
}

static const char *const texts[] = {
    /* what threads hand each other, reductions of all tasks, locals, a while, steps */
    "kernel @k(%n: size, %x: f32[%n,64] in, %y: f32[%n,64] inout) { grid { yield %n } body %t {\n"
    "%m = alloc shared f32[64]\n%z = const f32 0\n%l = local %z\nthreads %i = 0 to 64 {\n%v = load f32 %x[%t,%i]\nstore %v, %m[%i]\n}\n"
    "%s = reduce f32 sum 8, %k = 0 to 64 {\n%a = load f32 %m[%k]\nyield %a\n}\n%d = reduce f32 dot 4, %kk = 3 to 61 {\n%p = load f32 %m[%kk]\n"
    "%q = load f32 %x[%t,%kk]\nyield %p, %q\n}\n%w = reduce i64 argmax 1, %kkk = 0 to 64 {\n%b = load f32 %m[%kkk]\nyield %b\n}\n"
    "for %j = 0 to 64 step 9 {\n%g = get %l\n%h = load f32 %m[%j]\n%o = fma %g, %h, %s\nset %l, %o\n}\n%r = get %l\n%wf = convert f32 %w\n"
    "forall %i2 = 0 to 64 {\n%u = load f32 %m[%i2]\n%e = add %u, %r\n%f = mul %e, %d\n%ff = add %f, %wf\nstore %ff, %y[%t,%i2]\n}\n"
    "%three = const i64 3\n%c = local %three\nwhile {\n%cc = get %c\n%go = lt 0, %cc\nyield %go\n} do {\n%c1 = get %c\n%c2 = sub %c1, 1\nset %c, %c2\n"
    "%yy = load f32 %y[%t,%c2]\n%neg = neg %yy\nstore %neg, %y[%t,%c2]\n} } }\n",
    /* vectors, masks, faults */
    "kernel @k(%n: size, %x: f32[%n,64] in, %y: f32[%n,64] out) { grid { yield %n } body %t {\nforall %b = 0 to 1 {\n"
    "for %i = 0 to 64 step 8 {\n%o = sub %i, 3\n%v = load f32x8 %x[%t,%o]\n%u = shuffle f32x8 %v, %v, [7,6,5,4,3,2,1,0]\n%a = iota i64x8\n%s = splat i64x8 4\n"
    "%m = lt %a, %s\n%bits = bitcast u8x32 %u\n%back = bitcast f32x8 %bits\nstore %back, %y[%t,%i] if %m\n%g = gather f32x8 %x[%t,%a] if %m\n%at = splat i64x8 %i\n"
    "%p = add %at, %a\n%nm = not %m\nscatter %g, %y[%t,%p] if %nm\n} } } }\n",
};

TEST(structure)
{
    NEED_DEVICE();
    for (size_t i = 0; i < FX_COUNT(texts); i++) {
        for (size_t items = 1; items <= 64; items *= 8) {
            float data[2][5 * 64];
            run_buffer b[] = { { FX_F32, 5 * 64, data[0] }, { FX_F32, 5 * 64, data[1] } };

            for (int j = 0; j < 5 * 64; j++) {
                data[0][j] = (float)(run_random() % 1000) / 7 - 50;
                data[1][j] = 0;
            }
            run_text(texts[i], (uint64_t[]){ 5, 0 }, b, 2, items);
        }
    }
    opencl_close(&cl);
}

FXTEST_MAIN()
