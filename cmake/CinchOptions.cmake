# SPDX-License-Identifier: Apache-2.0
# Compiler settings that every target shares, and where binaries go.

# -O2: -O3 takes a third longer and is worth it in kernels only, which ask for it.
foreach(language IN ITEMS C CXX)
  if(CMAKE_${language}_FLAGS_RELEASE STREQUAL "-O3 -DNDEBUG")
    set(CMAKE_${language}_FLAGS_RELEASE "-O2 -DNDEBUG")
  endif()
endforeach()

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
  # Paths below the checkout are hashed as relative ones, so that a second clone finds the first's. Files
  # with precompiled headers are cached only where time stamps and definitions in these may differ.
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
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
  # UBSan's checks of every pointer take as long to compile as everything else. A null pointer ends a test
  # without them, and a pointer into nothing is AddressSanitizer's to find.
  target_compile_options(cinch_options INTERFACE
    $<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=${CINCH_SANITIZE};-fno-omit-frame-pointer>
    $<$<COMPILE_LANGUAGE:C,CXX>:-fno-sanitize=null$<COMMA>vptr$<COMMA>object-size$<COMMA>nonnull-attribute$<COMMA>returns-nonnull-attribute>)
  target_link_options(cinch_options INTERFACE -fsanitize=${CINCH_SANITIZE})
endif()

# cinch_optimize_sanitized(TARGET): optimizes what tests spend their time in, in sanitized builds too.
function(cinch_optimize_sanitized target)
  if(CINCH_SANITIZE)
    target_compile_options(${target} PRIVATE -O1)
  endif()
endfunction()

# cinch_compile_in_batches(TARGET FILES): compiles the target's files FILES at a time. Most of the work on a
# small file is reading torch's, JSON's or GoogleTest's headers and compiling what is inline in them.
# Names in anonymous namespaces must differ within a target.
option(CINCH_BATCHES "Compile files in batches: cheaper from nothing, dearer after a change of one file" ON)
function(cinch_compile_in_batches target files)
  if(NOT CINCH_BATCHES)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${files})
  # GCC takes the types of a batched file's anonymous namespace for those of a header.
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
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
