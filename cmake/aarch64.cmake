# aarch64.cmake - toolchain file: builds for aarch64 Linux on another machine.
#
# scripts/cross makes the folder of libraries. -DFORNAX_CROSS_CC=clang takes Clang (and lld) in place of
# aarch64-linux-gnu-gcc. Tests run under qemu-aarch64 where there is one.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(FORNAX_CROSS_CC aarch64-linux-gnu-gcc CACHE STRING "the compiler: aarch64-linux-gnu-gcc, or a clang")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES FORNAX_CROSS_CC)

set(FORNAX_LLVM OFF CACHE STRING "no code generator: LLVM would be this machine's")
set(CMAKE_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/../.cache/cross/aarch64)
set(CMAKE_C_COMPILER ${FORNAX_CROSS_CC})
if(FORNAX_CROSS_CC MATCHES "clang")
    set(CMAKE_C_COMPILER_TARGET aarch64-linux-gnu)
    set(CMAKE_C_FLAGS_INIT "--gcc-toolchain=/usr")
    foreach(kind EXE SHARED MODULE)
        set(CMAKE_${kind}_LINKER_FLAGS_INIT -fuse-ld=lld)
    endforeach()
endif()
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind LIBRARY INCLUDE PACKAGE)
    set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CMAKE_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${CMAKE_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${CMAKE_SYSROOT}/usr/share/pkgconfig)

find_program(QEMU_AARCH64 NAMES qemu-aarch64 qemu-aarch64-static)
if(QEMU_AARCH64)
    set(CMAKE_CROSSCOMPILING_EMULATOR ${QEMU_AARCH64} -L ${CMAKE_SYSROOT})
endif()
