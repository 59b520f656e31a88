// The child process of pre-flights in tests: `troupe policy test --preflight` without the rest.

#include "actors/plugin_preflight.hpp"

#include <string>
#include <vector>

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  troupe::actors::preflight_child(arguments);
}
