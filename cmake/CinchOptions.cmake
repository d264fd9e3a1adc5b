# SPDX-License-Identifier: Apache-2.0
# Compiler settings that every target shares, and where binaries go.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths below the checkout are hashed as relative ones, so that a second clone finds the first's.
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()

set(CINCH_SANITIZE "" CACHE STRING "Sanitizers for everything but the preload library, e.g. address,undefined")
option(CINCH_FUZZ "Build the fuzz targets with libFuzzer; needs clang (preset fuzz)" OFF)
option(CINCH_WERROR "Treat warnings as errors" ON)

# What every C++ target of ours links to.
# -ffp-contract=off: the codecs' bytes must not depend on whether a compiler fuses a*b+c.
add_library(cinch_options INTERFACE)
add_library(cinch::options ALIAS cinch_options)
target_include_directories(cinch_options INTERFACE ${PROJECT_SOURCE_DIR})
# -Wno-restrict: GCC 12 warns wrongly of std::string (GCC bug 105651).
target_compile_options(cinch_options INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:
  -Wall;-Wextra;$<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>;-ffp-contract=off;$<$<BOOL:${CINCH_WERROR}>:-Werror>>)
if(CINCH_SANITIZE)
  target_compile_options(cinch_options INTERFACE
    $<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=${CINCH_SANITIZE};-fno-omit-frame-pointer>)
  target_link_options(cinch_options INTERFACE -fsanitize=${CINCH_SANITIZE})
endif()
# cinch_compile_together(TARGET): with sanitizers, which are built to be run once, the target's files are
# compiled twelve at a time, since most of the work on them is reading torch's or JSON's headers. So
# the names in anonymous namespaces of one target must differ from each other.
function(cinch_compile_together target)
  if(NOT CINCH_SANITIZE)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
  # Types of a file of its own look as if they were a header's.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endfunction()

if(CINCH_FUZZ)
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_FLAGS -fsanitize=fuzzer)
  check_cxx_source_compiles(
    "extern \"C\" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }"
    CINCH_HAS_LIBFUZZER)
  unset(CMAKE_REQUIRED_FLAGS)
  if(NOT CINCH_HAS_LIBFUZZER)
    message(FATAL_ERROR "CINCH_FUZZ needs clang with libFuzzer: use the preset \"fuzz\"")
  endif()
  target_compile_options(cinch_options INTERFACE
    $<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=fuzzer-no-link;-fno-sanitize-recover=all>)
endif()
