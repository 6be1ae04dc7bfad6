// A module for the tests of module_driver.hpp. The build sets its version.
#include "tests/dataplane/port/fake_driver.hpp"

extern "C" const char* rdmc_module_version() {
  return RDMC_MODULE_VERSION;
}

extern "C" rdmc::port::Driver* rdmc_make_port_driver() {
  return new rdmc::port::test::FakeDriver("loaded", {.usable = true, .reason = "it is there"});
}
