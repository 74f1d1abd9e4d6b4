# Makes a library that CMake builds a backend, as dovetail's own build helper does:
#
#     include(${DOVETAIL_INCLUDE}/dovetail_backend.cmake)
#     add_library(acme SHARED ${SOURCES})
#     dovetail_backend(acme ${CMAKE_SOURCE_DIR}/src/dovetail_acme/dovetail-backend.json)
#
# The manifest, with the ABI of the headers, becomes a section of the library. So a library in a searched folder can be listed
# without being opened. Sources find `abi.h`, `DOVETAIL_BACKEND_ID` and `DOVETAIL_BACKEND_VERSION` (the project's version).
# Nothing but the one function of the protocol is exported, and a symbol that is nowhere defined is an error.
cmake_minimum_required(VERSION 3.19) # string(JSON)

set(DOVETAIL_HEADERS ${CMAKE_CURRENT_LIST_DIR})

function(dovetail_backend target manifest)
  file(READ "${manifest}" text)
  foreach(number MAJOR MINOR)
    file(STRINGS "${DOVETAIL_HEADERS}/abi.h" line REGEX "^#define DOVETAIL_ABI_${number} ")
    string(REGEX REPLACE ".* " "" ${number} ${line})
  endforeach()
  string(JSON text SET "${text}" abi "[${MAJOR}, ${MINOR}]")
  string(JSON text SET "${text}" version "\"${PROJECT_VERSION}\"")
  string(JSON id GET "${text}" id)
  # One line of C; within strings JSON writes control characters as escapes, and a trigraph begins with "?".
  string(REGEX REPLACE "[\r\n]+" " " text "${text}")
  string(REPLACE "\\" "\\\\" text "${text}")
  string(REPLACE "\"" "\\\"" text "${text}")
  string(REPLACE "?" "\\?" text "${text}")

  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${target}.dovetail)
  file(WRITE "${folder}/manifest.c" "#include \"abi.h\"\nDOVETAIL_MANIFEST(\"${text}\");\n")
  file(WRITE "${folder}/exports.map" "{ global: dovetail_open_backend_v*; local: *; };\n")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${manifest}")

  enable_language(C)
  target_sources(${target} PRIVATE "${folder}/manifest.c")
  target_include_directories(${target} PRIVATE "${DOVETAIL_HEADERS}")
  target_compile_definitions(
    ${target} PRIVATE DOVETAIL_BACKEND_ID="${id}" DOVETAIL_BACKEND_VERSION="${PROJECT_VERSION}")
  # The same bits on every machine, with or without fused multiply-add.
  target_compile_options(${target} PRIVATE -ffp-contract=off)
  set_target_properties(
    ${target} PROPERTIES C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  if(CMAKE_SYSTEM_NAME STREQUAL Linux)
    # Templates of the standard library are exported whatever the visibility; a list of exports leaves them out.
    target_link_options(${target} PRIVATE "-Wl,--version-script=${folder}/exports.map" -Wl,--no-undefined)
  endif()
endfunction()
