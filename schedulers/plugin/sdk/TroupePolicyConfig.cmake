# find_package(TroupePolicy): target troupe::policy, and troupe_add_policy() for a loadable library.
#
# Its flags let the host unload a library: symbols that are unique in a process would pin it.

if(NOT TARGET troupe::policy)
  add_library(troupe::policy INTERFACE IMPORTED)
  get_filename_component(_troupe_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
  set_target_properties(troupe::policy PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${_troupe_prefix}/include"
    INTERFACE_COMPILE_OPTIONS
      "-fvisibility=hidden;$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-gnu-unique>;-ffp-contract=off")
  unset(_troupe_prefix)
endif()

# troupe_add_policy(NAME SOURCE...): builds libNAME.so from C or C++ sources.
function(troupe_add_policy name)
  add_library(${name} MODULE ${ARGN})
  target_link_libraries(${name} PRIVATE troupe::policy)
  set_target_properties(${name} PROPERTIES
    C_STANDARD 99 C_STANDARD_REQUIRED ON CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON)
endfunction()
