# One archive libsimpler.a of all libraries, the public headers, and what find_package and pkg-config need.
include(GNUInstallDirs)
