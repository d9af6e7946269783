# The package `deuteron`: find_package(deuteron REQUIRED), with -Ddeuteron_DIR="$(deuteron --cmake-dir)", defines
#
#   deuteron::firmware                     the firmware library, compiled with the project's own compiler and flags
#   deuteron_add_bundle(<target> <build>)  a target with the C tables of a build directory, regenerated when it changes
#   deuteron_add_kernels(<target> <build>...)  the kernel table of a project with several bundles
#   deuteron_require_io_copy(<executable>)  its link fails unless it overrides the copies of inputs and outputs
#   deuteron_require_override(<executable> <symbol>)  the same check for any weak function
#   deuteron_add_arm_io_copy(<executable>)  the copies of ExecuTorch's own Ethos-U delegate by these
#
# With GCC for a device, a section that the linker script does not place is a link error, because start-up code would
# not initialise it; set DEUTERON_PLACE_ALL to OFF if a script relies on the linker's own placement.
#
# The inner loops of operators and kernels match the processor for which the compiler generates code; DTN_INNER selects
# others: portable, dsp or mve.
#
# The project provides the port (firmware/port/template is an example); link it and the bundle with the library:
#
#   target_link_libraries(app PRIVATE <target> deuteron::firmware)

get_filename_component(_deuteron_root "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
option(DEUTERON_PLACE_ALL "Refuse sections that the linker script does not place" ON)
find_program(DEUTERON_PROGRAM deuteron DOC "The program `deuteron`, which writes bundles")

if(NOT TARGET deuteron::firmware)
  file(GLOB _deuteron_sources CONFIGURE_DEPENDS
    "${_deuteron_root}/src/executor/*.c" "${_deuteron_root}/src/executor/ethosu/*.c"
    "${_deuteron_root}/src/operators/*.c"
    "${_deuteron_root}/src/tflite/*.c"
    "${_deuteron_root}/src/cortex_m/*.c" "${_deuteron_root}/src/io/*.c" "${_deuteron_root}/src/driver/*.c"
    "${_deuteron_root}/src/kernels/check/*.c" "${_deuteron_root}/src/kernels/table_fast.c")
  include("${CMAKE_CURRENT_LIST_DIR}/inner_loops.cmake")
  dtn_inner_sources(_deuteron_inner)
  dtn_device_kernels(_deuteron_kernels)
  add_library(deuteron_firmware STATIC EXCLUDE_FROM_ALL ${_deuteron_sources} ${_deuteron_kernels} ${_deuteron_inner})
  target_include_directories(deuteron_firmware PUBLIC "${_deuteron_root}/include")
  target_compile_features(deuteron_firmware PUBLIC c_std_99)
  set_target_properties(deuteron_firmware PROPERTIES C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
  target_compile_options(deuteron_firmware PRIVATE -ffunction-sections -fdata-sections -ffp-contract=off)
  if(DEUTERON_PLACE_ALL AND CMAKE_SYSTEM_NAME STREQUAL "Generic" AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
    target_link_options(deuteron_firmware INTERFACE -Wl,--orphan-handling=error)
  endif()
  add_library(deuteron::firmware ALIAS deuteron_firmware)
endif()

# Fails if `function` is used without the program `deuteron`.
macro(_deuteron_check function)
  if(NOT DEUTERON_PROGRAM)
    message(FATAL_ERROR "${function} needs the program `deuteron`: activate the environment that it is installed in, or "
      "set DEUTERON_PROGRAM to its path")
  endif()
endmacro()

# deuteron_add_bundle(<target> <build> [SYMBOL name] [WEIGHTS flash|sram|external] [ARENAS sram|external]
#                     [KERNELS selected|all] [HARNESS board])
#
# <build> is an output directory of `deuteron build`. The target's objects precede the libraries on the linker's command
# line, as the kernel table requires. `#include "<symbol>.h"`, dtn_bundle.h by default, declares the program. An image
# has one kernel table: with several bundles, give each a SYMBOL and KERNELS all, which adds no table, and add the table
# with deuteron_add_kernels. With HARNESS the target also has the harness for a serial line (deuteron/harness.h) and the
# facts about the image that it sends (harness/image.h); `firmware/samples/harness` uses both.
function(deuteron_add_bundle target build)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "SYMBOL;WEIGHTS;ARENAS;KERNELS;HARNESS" "")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "deuteron_add_bundle does not know `${arg_UNPARSED_ARGUMENTS}`")
  endif()
  _deuteron_check(deuteron_add_bundle)
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if(NOT "ASM" IN_LIST languages)
    message(FATAL_ERROR "deuteron_add_bundle needs the language ASM: write project(... C ASM)")
  endif()
  set(symbol dtn_bundle)
  set(options "")
  set(kernels selected)
  foreach(name SYMBOL WEIGHTS ARENAS KERNELS HARNESS)
    if(arg_${name})
      string(TOLOWER "${name}" option)
      list(APPEND options "--${option}" "${arg_${name}}")
      set(${option} "${arg_${name}}")
    endif()
  endforeach()
  get_filename_component(build "${build}" ABSOLUTE)
  set(output "${CMAKE_CURRENT_BINARY_DIR}/${target}")
  set(files "${output}/${symbol}.c" "${output}/${symbol}_data.S")
  if(kernels STREQUAL "selected")
    list(APPEND files "${output}/neutron_kernel_selection.c")
  endif()
  set(sources "")
  if(arg_HARNESS)
    list(APPEND files "${output}/dtn_harness_image.c")
    set(harness "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../harness")
    list(APPEND sources "${harness}/frame.c" "${harness}/harness.c" "${harness}/../runner/run.c")
  endif()
  add_custom_command(
    OUTPUT ${files}
    BYPRODUCTS "${output}/${symbol}.h" "${output}/${symbol}_data.bin"
    COMMAND "${DEUTERON_PROGRAM}" bundle "${build}" -o "${output}" --force --quiet ${options}
    DEPENDS "${build}/build.json" "${build}/model.pte"
    COMMENT "Bundle of ${build}"
    VERBATIM)
  add_library(${target} OBJECT ${files} ${sources})
  set_source_files_properties("${output}/${symbol}_data.S" PROPERTIES OBJECT_DEPENDS "${output}/${symbol}_data.bin")
  target_include_directories(${target} PUBLIC "${output}")
  if(arg_HARNESS)
    target_include_directories(${target} PUBLIC "${harness}")
  endif()
  target_include_directories(${target} PUBLIC $<TARGET_PROPERTY:deuteron_firmware,INTERFACE_INCLUDE_DIRECTORIES>)
endfunction()

# deuteron_add_kernels(<target> <build>...)
#
# Creates the table of the kernels that at least one of the builds calls; link the target, an object, to the executable.
function(deuteron_add_kernels target)
  _deuteron_check(deuteron_add_kernels)
  if(NOT ARGN)
    message(FATAL_ERROR "deuteron_add_kernels needs the builds whose kernels `${target}` is to hold")
  endif()
  set(builds "")
  set(files "")
  foreach(build ${ARGN})
    get_filename_component(build "${build}" ABSOLUTE)
    list(APPEND builds "${build}")
    list(APPEND files "${build}/build.json" "${build}/model.pte")
  endforeach()
  set(output "${CMAKE_CURRENT_BINARY_DIR}/${target}_kernel_selection.c")
  add_custom_command(
    OUTPUT "${output}"
    COMMAND "${DEUTERON_PROGRAM}" kernels merge ${builds} -o "${output}" --force --quiet
    DEPENDS ${files}
    COMMENT "Table of kernels ${target}"
    VERBATIM)
  add_library(${target} OBJECT "${output}")
  target_include_directories(${target} PRIVATE $<TARGET_PROPERTY:deuteron_firmware,INTERFACE_INCLUDE_DIRECTORIES>)
endfunction()

# deuteron_require_io_copy(<executable> [<hook>])
#
# Makes the linker search static libraries, too, for an override of the copies (deuteron/io.h), and checks the linked
# image: the build fails if it has none. <hook> is a function that the override defines, dtn_io_copy_start by default. A
# static library with the override must be linked before deuteron::firmware.
function(deuteron_require_io_copy target)
  _deuteron_check(deuteron_require_io_copy)
  set(hook dtn_io_copy_start)
  if(ARGC GREATER 1)
    set(hook "${ARGV1}")
  endif()
  target_link_options(${target} PRIVATE "-Wl,-u,${hook}")
  add_custom_command(
    TARGET ${target} POST_BUILD
    COMMAND "${DEUTERON_PROGRAM}" kernels show "$<TARGET_FILE:${target}>" --check-override --quiet
    VERBATIM)
endfunction()

# deuteron_require_override(<executable> <symbol>)
#
# Makes the linker search static libraries, too, for an override of a weak function, and checks the linked image: the
# build fails if it has none.
function(deuteron_require_override target symbol)
  _deuteron_check(deuteron_require_override)
  target_link_options(${target} PRIVATE "-Wl,-u,${symbol}")
  add_custom_command(
    TARGET ${target} POST_BUILD
    COMMAND "${DEUTERON_PROGRAM}" kernels show "$<TARGET_FILE:${target}>" --check-override "${symbol}" --quiet
    VERBATIM)
endfunction()

# deuteron_add_arm_io_copy(<executable>)
#
# ExecuTorch's own Ethos-U delegate, unmodified, copies its inputs and outputs with the hooks of deuteron/io.h; an
# inference fails if one of its copies failed (deuteron/arm_io.h). The override is an object file of the executable, so
# the order of its libraries does not matter; link deuteron::firmware, which has the hooks, last.
function(deuteron_add_arm_io_copy target)
  target_sources(${target} PRIVATE "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../src/arm_io/arm_ethos_io_memcpy.c")
  target_include_directories(${target} PRIVATE "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../include")
  target_link_options(${target} PRIVATE "-Wl,--wrap=ethosu_invoke_v3")
  deuteron_require_override(${target} arm_ethos_io_memcpy)
endfunction()
