# One archive libsimpler.a of all libraries, the public headers, and what find_package(simpler) and pkg-config need.
#
# Component `cpp` is for C++ projects; python/CMakeLists.txt adds the component `python`.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(_static GLOBAL PROPERTY SIMPLER_STATIC_LIBRARIES)
get_property(_externals GLOBAL PROPERTY SIMPLER_EXTERNALS)
list(REMOVE_DUPLICATES _externals)
# Used by our .cpp files only and nothing to link.
list(FILTER _externals EXCLUDE REGEX "^(Eigen3::Eigen|nlohmann_json::nlohmann_json|Boost::headers|Boost::boost)$")

find_package(Threads REQUIRED)
add_library(simpler STATIC "${CMAKE_CURRENT_LIST_DIR}/library.cpp")
add_library(simpler::simpler ALIAS simpler)
foreach(_library IN LISTS _static)
  target_sources(simpler PRIVATE $<TARGET_OBJECTS:${_library}>)
  add_dependencies(simpler ${_library})
endforeach()
target_compile_definitions(simpler PRIVATE SIMPLER_VERSION_TEXT="${PROJECT_VERSION}")
target_compile_features(simpler PUBLIC cxx_std_20)
target_include_directories(simpler PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(simpler PUBLIC Threads::Threads PRIVATE ${_externals} ${CMAKE_DL_LIBS})

set(_config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/simpler")
install(TARGETS simpler EXPORT simplerTargets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT cpp)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/simpler" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT cpp
        FILES_MATCHING PATTERN "*.h")
install(EXPORT simplerTargets NAMESPACE simpler:: DESTINATION "${_config_dir}" COMPONENT cpp)

set(SIMPLER_FIND_DEPENDENCIES "find_dependency(Threads)\n")
set(SIMPLER_PC_LIBS "-pthread")
foreach(_external IN LISTS _externals CMAKE_DL_LIBS)
  if(_external MATCHES "^OpenSSL::Crypto$")
    string(APPEND SIMPLER_FIND_DEPENDENCIES "find_dependency(OpenSSL)\n")
    string(APPEND SIMPLER_PC_LIBS " -lcrypto")
  elseif(_external MATCHES "^fmt::fmt$")
    string(APPEND SIMPLER_FIND_DEPENDENCIES "find_dependency(fmt)\n")
    string(APPEND SIMPLER_PC_LIBS " -lfmt")
  elseif(_external MATCHES "^[a-z]+$")
    string(APPEND SIMPLER_PC_LIBS " -l${_external}")
  elseif(NOT _external MATCHES "^Threads::Threads$")
    message(FATAL_ERROR "cmake/install.cmake does not know how an installed simpler finds ${_external}: add it there")
  endif()
endforeach()
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/simplerConfig.cmake.in" "${PROJECT_BINARY_DIR}/simplerConfig.cmake"
                              INSTALL_DESTINATION "${_config_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/simplerConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
file(RELATIVE_PATH SIMPLER_PC_TO_PREFIX "/p/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/p")
string(REGEX REPLACE "/$" "" SIMPLER_PC_TO_PREFIX "${SIMPLER_PC_TO_PREFIX}")
configure_file("${CMAKE_CURRENT_LIST_DIR}/simpler.pc.in" "${PROJECT_BINARY_DIR}/simpler.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/simplerConfig.cmake" "${PROJECT_BINARY_DIR}/simplerConfigVersion.cmake"
        DESTINATION "${_config_dir}" COMPONENT cpp)
install(FILES "${PROJECT_BINARY_DIR}/simpler.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT cpp)
