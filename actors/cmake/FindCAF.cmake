# Finds Debian's CAF 0.17 (no config file is shipped): imported targets CAF::core, CAF::io.

find_path(CAF_INCLUDE_DIR caf/all.hpp)
find_library(CAF_CORE_LIBRARY caf_core)
find_library(CAF_IO_LIBRARY caf_io)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CAF REQUIRED_VARS CAF_CORE_LIBRARY CAF_IO_LIBRARY CAF_INCLUDE_DIR)

foreach(component core io)
  string(TOUPPER ${component} upper)
  if(CAF_FOUND AND NOT TARGET CAF::${component})
    add_library(CAF::${component} UNKNOWN IMPORTED)
    set_target_properties(CAF::${component} PROPERTIES
      IMPORTED_LOCATION ${CAF_${upper}_LIBRARY}
      INTERFACE_INCLUDE_DIRECTORIES ${CAF_INCLUDE_DIR})
  endif()
endforeach()
