# SPDX-License-Identifier: Apache-2.0
# Imported targets for libtorch_cpu and libc10 of the torch that CINCH_PYTHON imports.
#
# Not find_package(Torch): the CUDA wheel's configuration wants to detect a GPU and CUDA toolkit,
# and the hooks need two libraries and their headers only.

# pip builds with the Python that it installs for, or one that has the build's requirements.
set(default_python "${PROJECT_SOURCE_DIR}/.venv/bin/python")
if(SKBUILD AND PYTHON_EXECUTABLE)
  set(default_python "${PYTHON_EXECUTABLE}")
endif()
set(CINCH_PYTHON "${default_python}" CACHE FILEPATH "Python whose torch the core is built against")
if(NOT EXISTS ${CINCH_PYTHON})
  message(FATAL_ERROR "cinch: no Python at ${CINCH_PYTHON}: run scripts/setup, or pass -DCINCH_PYTHON=… with torch installed")
endif()

execute_process(
  COMMAND ${CINCH_PYTHON} -c "import importlib.util as u, pathlib, re; d = pathlib.Path(u.find_spec('torch').origin).parent; print(d); print(re.search(r\"__version__ = '([0-9.]+)\", (d / 'version.py').read_text()).group(1))"
  WORKING_DIRECTORY ${PROJECT_BINARY_DIR}
  OUTPUT_VARIABLE torch_facts OUTPUT_STRIP_TRAILING_WHITESPACE
  ERROR_VARIABLE torch_error RESULT_VARIABLE torch_result)
if(NOT torch_result EQUAL 0)
  message(FATAL_ERROR "cinch: ${CINCH_PYTHON} has no torch: run scripts/setup (${torch_error})")
endif()
string(REPLACE "\n" ";" torch_facts "${torch_facts}")
list(GET torch_facts 0 CINCH_TORCH_DIR)
list(GET torch_facts 1 CINCH_TORCH_VERSION)
string(REGEX MATCH "^([0-9]+)\\.([0-9]+)" _ ${CINCH_TORCH_VERSION})
set(CINCH_TORCH_MAJOR ${CMAKE_MATCH_1})
set(CINCH_TORCH_MINOR ${CMAKE_MATCH_2})
message(STATUS "cinch: torch ${CINCH_TORCH_VERSION} in ${CINCH_TORCH_DIR}")

set(torch_libraries c10 torch_cpu)
if(EXISTS ${CINCH_TORCH_DIR}/lib/libc10_cuda.so)
  list(APPEND torch_libraries c10_cuda)
endif()
foreach(lib IN LISTS torch_libraries)
  add_library(torch::${lib} SHARED IMPORTED)
  set_target_properties(torch::${lib} PROPERTIES
    IMPORTED_LOCATION ${CINCH_TORCH_DIR}/lib/lib${lib}.so
    INTERFACE_INCLUDE_DIRECTORIES "${CINCH_TORCH_DIR}/include;${CINCH_TORCH_DIR}/include/torch/csrc/api/include"
    # RecordFunction's layout differs without NDEBUG, and torch's wheels are built with it.
    INTERFACE_COMPILE_DEFINITIONS NDEBUG)
endforeach()

# The CUDA runtime that this torch uses: from its wheels, else the toolkit's.
if(TARGET torch::c10_cuda)
  file(GLOB cuda_runtimes ${CINCH_TORCH_DIR}/../nvidia/*/lib/libcudart.so.*
    ${CINCH_TORCH_DIR}/lib/libcudart*.so.*)
  if(cuda_runtimes)
    list(GET cuda_runtimes 0 cuda_runtime)
    add_library(torch::cudart SHARED IMPORTED)
    set_target_properties(torch::cudart PROPERTIES IMPORTED_LOCATION ${cuda_runtime})
  elseif(TARGET CUDA::cudart)
    add_library(torch::cudart ALIAS CUDA::cudart)
  endif()
endif()
