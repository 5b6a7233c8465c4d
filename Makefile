# Makefile - short names for what CMakeLists.txt describes.
MAKEFLAGS += --no-print-directory
BUILD ?= build
PREFIX ?= /usr/local
CMAKE ?= cmake
JOBS ?= $(shell nproc 2>/dev/null || echo 2)

all:
	@$(CMAKE) -S . -B $(BUILD) -DCMAKE_INSTALL_PREFIX=$(PREFIX) $(CMAKE_ARGS) >/dev/null
	+@$(CMAKE) --build $(BUILD) $(if $(findstring jobserver,$(MAKEFLAGS)),,-j $(JOBS))
test: all
	@ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS)
asan:
	@$(MAKE) test BUILD=build-asan CMAKE_ARGS="-DCMAKE_BUILD_TYPE=Debug -DFORNAX_SANITIZE=address,undefined -DFORNAX_PROGRAM=ON"
tsan:
	@$(MAKE) test BUILD=build-tsan CMAKE_ARGS="-DCMAKE_BUILD_TYPE=Debug -DFORNAX_SANITIZE=thread"
tree: all
	@python3 tests/tree/check_tree.py --build $(BUILD)
check: test asan tree
install: all
	@DESTDIR=$(DESTDIR) $(CMAKE) --install $(BUILD)
clean:
	rm -rf build build-asan build-tsan
.PHONY: all tree test asan tsan check install clean
