# cmake -DBUILD=<tree> -DCXX=<compiler> -DSCRATCH=<folder> -P run.cmake
cmake_minimum_required(VERSION 3.25)
function(step)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGV}\nfailed with ${status}:\n${output}")
  endif()
  set(step_output "${output}" PARENT_SCOPE)
endfunction()

set(source "${CMAKE_CURRENT_LIST_DIR}/project")
# A prefix with a space in its name, moved after the installation: nothing in it may point back.
file(REMOVE_RECURSE "${SCRATCH}/first" "${SCRATCH}/in stalled" "${SCRATCH}/tree")
step("${CMAKE_COMMAND}" --install "${BUILD}" --component cpp --prefix "${SCRATCH}/first")
file(RENAME "${SCRATCH}/first" "${SCRATCH}/in stalled")
step("${CMAKE_COMMAND}" -S "${source}" -B "${SCRATCH}/tree" -G Ninja "-DCMAKE_CXX_COMPILER=${CXX}" -DCMAKE_BUILD_TYPE=Release
     "-DCMAKE_PREFIX_PATH=${SCRATCH}/in stalled")
step("${CMAKE_COMMAND}" --build "${SCRATCH}/tree")
step("${SCRATCH}/tree/consumer")
message(STATUS "find_package: ${step_output}")

find_program(pkg_config NAMES pkg-config pkgconf REQUIRED)
file(GLOB_RECURSE pc "${SCRATCH}/in stalled/*/simpler.pc")
get_filename_component(folder "${pc}" DIRECTORY)
# The shell takes the flags as a makefile would: words are split, escaped spaces are not.
step("${CMAKE_COMMAND}" -E env "PKG_CONFIG_PATH=${folder}" "CXX=${CXX}" "MAIN=${source}/main.cpp" "PROGRAM=${SCRATCH}/by_pkg_config"
     sh -c
     "eval \"set -- $(\"$0\" --cflags --libs simpler)\" && exec \"$CXX\" \"$MAIN\" -o \"$PROGRAM\" \"$@\"" "${pkg_config}")
step("${SCRATCH}/by_pkg_config")
message(STATUS "pkg-config: ${step_output}")
file(REMOVE_RECURSE "${SCRATCH}/in stalled" "${SCRATCH}/tree" "${SCRATCH}/by_pkg_config")
