# Toolchain for bare-metal Arm: `cmake --toolchain .../firmware/cmake/arm-none-eabi.cmake -DDTN_CPU=cortex-m33`, or for
# another processor with its flags, `-DDTN_CPU_FLAGS="-mcpu=cortex-m7 -mthumb -mfloat-abi=hard -mfpu=fpv5-d16"`.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR arm)
set(CMAKE_C_COMPILER arm-none-eabi-gcc)
set(CMAKE_CXX_COMPILER arm-none-eabi-g++)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES DTN_CPU DTN_CPU_FLAGS)

set(DTN_CPU cortex-m33 CACHE STRING "Processor: cortex-m33 or cortex-m55")
set(DTN_CPU_FLAGS "" CACHE STRING "What the compiler is told of any other processor")
if(DTN_CPU_FLAGS)
  set(cpu_flags "${DTN_CPU_FLAGS}")
elseif(DTN_CPU STREQUAL "cortex-m33")
  set(cpu_flags "-mcpu=cortex-m33 -mthumb -mfloat-abi=hard -mfpu=fpv5-sp-d16")
elseif(DTN_CPU STREQUAL "cortex-m55")
  set(cpu_flags "-mcpu=cortex-m55 -mthumb -mfloat-abi=hard")
else()
  message(FATAL_ERROR "DTN_CPU is `${DTN_CPU}`; cortex-m33 and cortex-m55 are known, for others set DTN_CPU_FLAGS to "
    "what the compiler is told of the processor")
endif()
foreach(language C CXX ASM)
  set(CMAKE_${language}_FLAGS_INIT "${cpu_flags} -ffunction-sections -fdata-sections")
  set(CMAKE_${language}_FLAGS_RELEASE_INIT "-Os")
endforeach()
# Objects of newlib do not say that they need no executable stack; without a word from here the linker warns of each.
set(CMAKE_EXE_LINKER_FLAGS_INIT "-nostartfiles --specs=nano.specs -Wl,--gc-sections -Wl,-z,noexecstack")

set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
