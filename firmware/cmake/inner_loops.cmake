# Inner loops of the Cortex-M operators and of the NPU's kernels (firmware/src/cortex_m/inner_loops.h): portable C, or for an
# instruction set extension. DTN_INNER selects one; by default, that of the compiler's target processor. Hosts use the
# portable one.
include(CheckCSourceCompiles)

foreach(feature DSP MVE)
  check_c_source_compiles("
#if !(__ARM_ARCH_PROFILE == 'M' && __ARM_FEATURE_${feature})
#error
#endif
int dtn_feature;
int main(void) { return dtn_feature; }" DTN_HAS_${feature})
endforeach()
if(DTN_HAS_MVE)
  set(_dtn_inner mve)
elseif(DTN_HAS_DSP)
  set(_dtn_inner dsp)
else()
  set(_dtn_inner portable)
endif()
set(DTN_INNER ${_dtn_inner} CACHE STRING "Inner loops of operators and kernels: portable, dsp or mve")
set_property(CACHE DTN_INNER PROPERTY STRINGS portable dsp mve)
if(NOT DTN_INNER MATCHES "^(portable|dsp|mve)$")
  message(FATAL_ERROR "DTN_INNER is `${DTN_INNER}`; it can be portable, dsp or mve")
endif()

# dtn_inner_sources(<variable> [<root>]): sets the files of the selected directory, and those of `portable` that it
# lacks (`matmul_s8_dsp.c` replaces `matmul_s8_portable.c`), with their flags: for the Cortex-M operators, or below another
# root. Call it in the directory of the target that uses them. board/library.py has the same rule and its reason.
function(dtn_inner_sources result)
  set(root "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../src/cortex_m")
  if(ARGC GREATER 1)
    set(root "${ARGV1}")
  endif()
  file(GLOB sources CONFIGURE_DEPENDS "${root}/${DTN_INNER}/*.c")
  # Inner loops take most of the time of an inference: -O3 in Debug builds too. They compile at every level. Under the
  # sanitizers all is optimised a little: firmware/CMakeLists.txt says why.
  if(NOT DTN_INNER STREQUAL "portable" AND NOT DTN_SANITIZE)
    set(options -O3)
    if(DTN_INNER STREQUAL "dsp" AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
      list(APPEND options -fno-schedule-insns)
    endif()
    set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS "${options}")
  endif()
  file(GLOB names CONFIGURE_DEPENDS RELATIVE "${root}/portable" "${root}/portable/*.c")
  foreach(name ${names})
    string(REGEX REPLACE "_portable\\.c$" "_${DTN_INNER}.c" own "${name}")
    if(NOT EXISTS "${root}/${DTN_INNER}/${own}")
      list(APPEND sources "${root}/portable/${name}")
    endif()
  endforeach()
  set(${result} ${sources} PARENT_SCOPE)
endfunction()

# dtn_device_kernels(<variable>): sets the NPU's kernels for a device, with their inner loops. Kernels in `device`
# replace those of `fast` that compilers vectorise.
function(dtn_device_kernels result)
  set(root "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../src/kernels")
  dtn_inner_sources(sources "${root}/single_rounding")
  file(GLOB own CONFIGURE_DEPENDS "${root}/single_rounding/*.c" "${root}/device/*.c")
  list(APPEND sources ${own})
  file(GLOB names CONFIGURE_DEPENDS RELATIVE "${root}/fast" "${root}/fast/*.c")
  foreach(name ${names})
    if(NOT EXISTS "${root}/device/${name}")
      list(APPEND sources "${root}/fast/${name}")
    endif()
  endforeach()
  set(${result} ${sources} PARENT_SCOPE)
endfunction()
