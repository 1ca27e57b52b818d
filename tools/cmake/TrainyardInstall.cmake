# Installs the program, the scenarios and a package that find_package(trainyard) finds; packs all
# of it as a Debian package.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/trainyard)
install(TARGETS trainyard RUNTIME DESTINATION bin)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/scenarios DESTINATION share/trainyard OPTIONAL)
install(EXPORT trainyard NAMESPACE trainyard:: DESTINATION ${package_dir}
        FILE trainyard-targets.cmake)
configure_package_config_file(
  ${CMAKE_CURRENT_LIST_DIR}/trainyard-config.cmake.in ${PROJECT_BINARY_DIR}/trainyard-config.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/trainyard-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/trainyard-config.cmake
              ${PROJECT_BINARY_DIR}/trainyard-config-version.cmake DESTINATION ${package_dir})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION share/doc/trainyard)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "The Trainyard authors <trainyard@localhost>")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_STRIP_FILES ON)
include(CPack)
