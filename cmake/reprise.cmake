# How the project's targets are made. One static library per folder of src/, one test program per folder of tests/:
# a new file in a folder needs no edit here or anywhere else.

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths below the source folder are hashed as relative ones, so that a second clone or worktree finds the same objects.
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
                                      CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()

# Any x86-64 machine of the last fifteen years; faster kernels carry their own target and are chosen at run time.
# Contraction is off so that a formula rounds the same wherever it is compiled; kernels ask for fused operations by name.
# __FILE__ and source_location read "src/folder/file.cc" wherever the build is (ccache makes paths relative to it).
file(RELATIVE_PATH source_from_build ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR})
add_library(reprise_flags INTERFACE)
target_compile_options(reprise_flags INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -ffp-contract=off
                       -fmacro-prefix-map=${CMAKE_SOURCE_DIR}/= -fmacro-prefix-map=${source_from_build}=)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  target_compile_options(reprise_flags INTERFACE -march=x86-64-v2)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(reprise_flags INTERFACE -Werror -Wno-psabi)
else()
  # Clang, used for the sanitizers because it compiles them in two thirds of the time, has other opinions about warnings;
  # g++ is the compiler that must be content.
  target_compile_options(reprise_flags INTERFACE -Wno-unknown-warning-option -Wno-deprecated-declarations)
endif()
if(CMAKE_UNITY_BUILD)
  # Several files in one: a local name may shadow what another file has. The build develop still forbids it. And g++
  # takes them for headers, in which a class should not be made of what only its file knows.
  target_compile_options(reprise_flags INTERFACE -Wno-shadow -Wno-subobject-linkage)
endif()
if(REPRISE_PORTABLE_KERNELS)
  target_compile_definitions(reprise_flags INTERFACE REPRISE_PORTABLE_KERNELS)
endif()
if(REPRISE_SANITIZE)
  # Instrumented code misleads g++'s flow analysis, and TSan does not know fences: those two stay warnings or silent here.
  target_compile_options(reprise_flags INTERFACE -fsanitize=${REPRISE_SANITIZE} -fno-sanitize-recover=all
                         -fno-omit-frame-pointer -g1 -Wno-maybe-uninitialized $<$<CXX_COMPILER_ID:GNU>:-Wno-error=tsan>)
  if(REPRISE_SANITIZE MATCHES "undefined")
    # A null pointer traps by itself, and virtual calls are few: these two cost a fifth of the compile time for nothing.
    target_compile_options(reprise_flags INTERFACE -fno-sanitize=null,vptr)
  endif()
  # g++ defines these by itself.
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND REPRISE_SANITIZE MATCHES "address")
    target_compile_definitions(reprise_flags INTERFACE __SANITIZE_ADDRESS__)
  elseif(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND REPRISE_SANITIZE MATCHES "thread")
    target_compile_definitions(reprise_flags INTERFACE __SANITIZE_THREAD__)
  endif()
  # What a target takes back must come last.
  target_compile_options(reprise_flags INTERFACE $<TARGET_PROPERTY:REPRISE_LAST_OPTIONS>)
  target_link_options(reprise_flags INTERFACE -fsanitize=${REPRISE_SANITIZE})
endif()

# Headers that nearly every file includes, parsed once: a quarter of the build's time. What a file uses it includes all
# the same, so that a build without them (-DREPRISE_PRECOMPILED_HEADERS=OFF) works.
option(REPRISE_PRECOMPILED_HEADERS "Parse the common headers once" ON)
function(reprise_precompile target kind)
  if(NOT REPRISE_PRECOMPILED_HEADERS)
    return()
  endif()
  # The first target of a kind parses them for all others of it.
  get_property(first GLOBAL PROPERTY reprise_precompiled_${kind})
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    target_precompile_headers(${target} PRIVATE ${ARGN} <algorithm> <chrono> <filesystem> <functional> <map> <memory>
                              <optional> <set> <span> <string> <variant> <vector> <fmt/core.h>)
    set_property(GLOBAL PROPERTY reprise_precompiled_${kind} ${target})
  endif()
endfunction()

# reprise_library(NAME [DEPS folders...] [LINK libraries...] [EXCLUDE regex]): the static library of src/NAME.
function(reprise_library name)
  cmake_parse_arguments(ARG "" "EXCLUDE" "DEPS;LINK" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cc)
  if(ARG_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX "${ARG_EXCLUDE}")
  endif()
  if(NOT sources)
    add_library(reprise_${name} INTERFACE)
    set(scope INTERFACE)
  else()
    add_library(reprise_${name} STATIC ${sources})
    set(scope PUBLIC)
  endif()
  target_include_directories(reprise_${name} ${scope} $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/src>)
  target_compile_features(reprise_${name} ${scope} cxx_std_20)
  foreach(dep ${ARG_DEPS})
    target_link_libraries(reprise_${name} ${scope} reprise_${dep})
  endforeach()
  target_link_libraries(reprise_${name} ${scope} ${ARG_LINK})
  target_link_libraries(reprise_${name} ${scope} $<BUILD_INTERFACE:reprise_flags>)
  if(sources AND REPRISE_FUZZ)
    # Counts for libFuzzer which branches were taken; programs without it do not notice.
    target_compile_options(reprise_${name} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
  if(sources AND NOT CMAKE_UNITY_BUILD)
    reprise_precompile(reprise_${name} library)
  endif()
endfunction()

# reprise_test(NAME DEPS folders... [LINK libraries...] [OPTIMISE] [PRECOMPILE header]): what is in tests/NAME. With REPRISE_TESTS the program NAME_test,
# one ctest entry; it writes its cases to test_results/NAME_test.xml, from which scripts/test counts them (a process for
# each case would cost more than the cases do). With REPRISE_FUZZ a libFuzzer program for each *_fuzz.cc.
function(reprise_test name)
  cmake_parse_arguments(ARG "OPTIMISE" "PRECOMPILE" "DEPS;LINK" ${ARGN})
  list(TRANSFORM ARG_DEPS PREPEND reprise_)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cc)
  set(fuzz_sources ${sources})
  list(FILTER sources EXCLUDE REGEX "_fuzz\\.cc$")
  list(FILTER fuzz_sources INCLUDE REGEX "_fuzz\\.cc$")

  if(REPRISE_TESTS AND sources)
    add_executable(${name}_test ${sources})
    target_include_directories(${name}_test PRIVATE ${CMAKE_SOURCE_DIR}/tests)
    target_compile_definitions(${name}_test PRIVATE REPRISE_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    target_link_libraries(${name}_test PRIVATE ${ARG_DEPS} ${ARG_LINK} GTest::gmock GTest::gtest GTest::gtest_main)
    # Assertions are slow to optimise and no work of their own. Folders whose tests compute ask for it all the same.
    target_compile_options(${name}_test PRIVATE $<IF:$<BOOL:${ARG_OPTIMISE}>,-O1,-O0>)
    if(REPRISE_SANITIZE MATCHES "undefined")
      # What the tests call is checked; the assertions themselves would cost a quarter of the compile time.
      set_target_properties(${name}_test PROPERTIES REPRISE_LAST_OPTIONS -fno-sanitize=undefined)
    endif()
    if(ARG_PRECOMPILE)
      reprise_precompile(${name}_test test_${name} <gmock/gmock.h> <gtest/gtest.h> ${ARG_PRECOMPILE})
    else()
      reprise_precompile(${name}_test test_${ARG_OPTIMISE} <gmock/gmock.h> <gtest/gtest.h>)
    endif()
    add_test(NAME ${name}_test
             COMMAND ${name}_test --gtest_brief=1 --gtest_output=xml:${CMAKE_BINARY_DIR}/test_results/${name}_test.xml)
    set_tests_properties(${name}_test PROPERTIES TIMEOUT 900)
    # The longest first, so that none is left to run alone at the end.
    set(cost_of_replay 9)
    set(cost_of_ops 8)
    set(cost_of_kernels 7)
    if(cost_of_${name})
      set_tests_properties(${name}_test PROPERTIES COST ${cost_of_${name}})
    endif()
    add_dependencies(unit_tests ${name}_test)
  endif()

  if(REPRISE_FUZZ)
    foreach(source ${fuzz_sources})
      cmake_path(GET source STEM target)
      add_executable(${target} ${source})
      target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
      target_link_libraries(${target} PRIVATE ${ARG_DEPS} ${ARG_LINK})
      target_link_options(${target} PRIVATE -fsanitize=fuzzer)
      add_dependencies(fuzz_targets ${target})
    endforeach()
  endif()
endfunction()
