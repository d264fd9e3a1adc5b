# SPDX-License-Identifier: Apache-2.0
# CUDA is compiled when nvcc is found; everything else builds without it.

include(CheckLanguage)
check_language(CUDA)
if(CMAKE_CUDA_COMPILER)
  # One intermediate code, from which each architecture's is made: cheaper than one for each, and what was
  # compared had the same size (docs/testing.md).
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES OFF)
    set(cuda_architectures --generate-code=arch=compute_80,code=[compute_80,sm_80,sm_90,sm_100])
  endif()
  if(NOT CMAKE_CUDA_COMPILER_LAUNCHER)
    set(CMAKE_CUDA_COMPILER_LAUNCHER
      ${CMAKE_CURRENT_LIST_DIR}/record-ptxas ${CMAKE_CXX_COMPILER_LAUNCHER})
  endif()
  enable_language(CUDA)
  find_package(CUDAToolkit REQUIRED)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know it of nvcc 13
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  set(CINCH_HAVE_CUDA ON)
  message(STATUS "cinch: CUDA ${CMAKE_CUDA_COMPILER_VERSION} found")
else()
  set(CINCH_HAVE_CUDA OFF)
  message(STATUS "cinch: no nvcc found: building for the CPU only; everything else is built and tested")
endif()

# What every CUDA target of ours links to besides cinch::options. -fmad=false: as -ffp-contract=off
# there. Shared runtime: the program's own, which tests can replace by a fake.
add_library(cinch_cuda_options INTERFACE)
add_library(cinch::cuda_options ALIAS cinch_cuda_options)
target_compile_options(cinch_cuda_options INTERFACE
  $<$<COMPILE_LANGUAGE:CUDA>:${cuda_architectures};-fmad=false;--expt-relaxed-constexpr;-Xptxas=-v;-Xcompiler=-Wall,-Wno-unknown-pragmas,-ffp-contract=off>
  $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${CINCH_WERROR}>>:--Werror=all-warnings>)

# cinch_cuda_batches(VARIABLE SIZE FILE…): the files, or files that include SIZE of them each, as
# cinch_compile_in_batches does it for C++; CMake has it for CUDA since 3.31.
function(cinch_cuda_batches variable size)
  set(batches ${ARGN})
  if(CINCH_BATCHES)
    set(batches)
    set(files ${ARGN})
    while(files)
      list(SUBLIST files 0 ${size} batch)
      list(REMOVE_ITEM files ${batch})
      list(LENGTH batches number)
      list(TRANSFORM batch REPLACE "(.+)" "#include \"\\1\"\n")
      string(CONCAT text ${batch})
      set(file ${CMAKE_CURRENT_BINARY_DIR}/batch_${number}.cu)
      file(CONFIGURE OUTPUT ${file} CONTENT "${text}" @ONLY)
      list(APPEND batches ${file})
    endwhile()
  endif()
  set(${variable} ${batches} PARENT_SCOPE)
endfunction()
