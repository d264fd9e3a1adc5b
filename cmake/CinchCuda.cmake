# SPDX-License-Identifier: Apache-2.0
# CUDA is compiled when nvcc is found; everything else builds without it.

include(CheckLanguage)
check_language(CUDA)
if(CMAKE_CUDA_COMPILER)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100)
  endif()
  enable_language(CUDA)
  set(CINCH_HAVE_CUDA ON)
  message(STATUS "cinch: CUDA ${CMAKE_CUDA_COMPILER_VERSION} found")
else()
  set(CINCH_HAVE_CUDA OFF)
  message(STATUS "cinch: no nvcc found: building for the CPU only; everything else is built and tested")
endif()
