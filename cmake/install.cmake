# What `cmake --install` gives: the program, the public library with the layers below it, and a package for
# find_package(Reprise). Programs link Reprise::reprise.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The public library and all that it links; models, tokenizers and the engine are parts of the program only.
set(installed_libraries base tensor device ops kernels graph compile replay api)
foreach(name ${installed_libraries})
  set_target_properties(reprise_${name} PROPERTIES EXPORT_NAME ${name})
endforeach()
set_target_properties(reprise_api PROPERTIES EXPORT_NAME reprise)
list(TRANSFORM installed_libraries PREPEND reprise_)

# "reprise/compile.h" lies in include/, and what it includes ("graph/graph.h") in include/reprise/layers/, where the
# layers' general names meet nobody else's.
set(layer_headers ${CMAKE_INSTALL_INCLUDEDIR}/reprise/layers)
install(TARGETS ${installed_libraries} EXPORT RepriseTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} ${layer_headers})
install(TARGETS reprise RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY include/reprise DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# What the public headers include, and what users' operators, passes and backends are written with. Not among them: the
# devices' and kernels' insides.
foreach(pattern base/error base/log tensor/* device/* device/cpu/cpu_device device/cpu/cpu_stream device/cpu/kernel
                ops/* graph/* compile/* replay/graph_pool replay/step_counters)
  cmake_path(GET pattern PARENT_PATH folder)
  file(GLOB headers CONFIGURE_DEPENDS src/${pattern}.h)
  install(FILES ${headers} DESTINATION ${layer_headers}/${folder})
endforeach()

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Reprise)
install(EXPORT RepriseTargets NAMESPACE Reprise:: DESTINATION ${package_folder})
configure_package_config_file(cmake/RepriseConfig.cmake.in ${CMAKE_BINARY_DIR}/RepriseConfig.cmake
                              INSTALL_DESTINATION ${package_folder})
# Until 1.0 a minor version may change the interface.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/RepriseConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/RepriseConfig.cmake ${CMAKE_BINARY_DIR}/RepriseConfigVersion.cmake
        DESTINATION ${package_folder})
