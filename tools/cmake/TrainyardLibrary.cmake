include(GNUInstallDirs)

# trainyard_add_library(name DEPS … PRIVATE_DEPS … EXCLUDE regex SOURCES …): a folder is a static
# library of all its sources but those that match EXCLUDE, or of SOURCES alone; alias
# trainyard::name, installed with its headers. The include root is the repository.
function(trainyard_add_library name)
  cmake_parse_arguments(ARG "" "EXCLUDE" "DEPS;PRIVATE_DEPS;SOURCES" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  if(ARG_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX ${ARG_EXCLUDE})
  endif()
  if(ARG_SOURCES)
    set(sources ${ARG_SOURCES})
  endif()
  add_library(trainyard_${name} STATIC ${sources})
  add_library(trainyard::${name} ALIAS trainyard_${name})
  set_target_properties(trainyard_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(
    trainyard_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                             $<INSTALL_INTERFACE:include/trainyard>)
  target_link_libraries(trainyard_${name} PUBLIC ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS})
  trainyard_warnings(trainyard_${name})
  install(TARGETS trainyard_${name} EXPORT trainyard ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/ DESTINATION include/trainyard/${name}
          FILES_MATCHING PATTERN "*.h")
endfunction()

# trainyard_warnings(target header…): warnings, and with TRAINYARD_BATCHED several sources at a time,
# the usual headers and those given parsed once for all. Names in unnamed namespaces must then differ
# within a target.
function(trainyard_warnings target)
  # What nvcc makes of a source is not pedantic.
  target_compile_options(
    ${target} PRIVATE -Wall -Wextra $<$<NOT:$<COMPILE_LANGUAGE:CUDA>>:-Wpedantic>)
  if(TRAINYARD_WERROR)
    target_compile_options(
      ${target} PRIVATE $<IF:$<COMPILE_LANGUAGE:CUDA>,-Werror=all-warnings$<SEMICOLON>-Xcompiler=-Werror,-Werror>)
  endif()
  if(TRAINYARD_BATCHED)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
    target_precompile_headers(${target} PRIVATE <fmt/format.h> <algorithm> <filesystem>
                              <functional> <map> <memory> <string> <vector> ${ARGN})
  endif()
endfunction()

# For code in which tests spend little time: debug builds leave it as it is, which halves the time to
# compile it under the sanitizers.
function(trainyard_unoptimised_in_debug target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Debug>:-O0>)
endfunction()

# Flags for arithmetic in loops: this machine's vector instructions (TRAINYARD_NATIVE) or those of
# x86-64-v3, no errno from functions, no trapping. NaN and infinity keep their meaning, sums are never
# reordered, and products and sums are never fused unasked: an element comes out the same in the
# vectorised part of a loop and in its rest.
function(trainyard_kernel_flags target)
  set(flags -fno-math-errno -fno-trapping-math -ffp-contract=off $<$<CONFIG:Release>:-O3>)
  if(TRAINYARD_NATIVE)
    list(APPEND flags -march=native)
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(APPEND flags -march=x86-64-v3)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # False alarms in GCC's AVX-512 headers (PR 105593), and about vectors as template arguments.
    list(APPEND flags -Wno-maybe-uninitialized -Wno-uninitialized -Wno-ignored-attributes)
  endif()
  target_compile_options(${target} PRIVATE ${flags})
endfunction()
