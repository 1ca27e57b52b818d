include(GNUInstallDirs)

# trainyard_add_library(name DEPS … PRIVATE_DEPS …): a folder is a static library of all its
# sources, alias trainyard::name, installed with its headers. The include root is the repository.
function(trainyard_add_library name)
  cmake_parse_arguments(ARG "" "" "DEPS;PRIVATE_DEPS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
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

function(trainyard_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic)
  if(TRAINYARD_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
endfunction()
