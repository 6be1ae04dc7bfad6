#include "apps/control/exposition.hpp"

#include <fmt/format.h>

namespace rdmc::control_app {

std::string label(const std::string& name, const std::string& value) {
  std::string text = name + "=\"";
  for (const char c : value) {
    if (c == '\\' || c == '"') text += '\\';
    if (c == '\n')
      text += "\\n";
    else
      text += c;
  }
  return text + "\"";
}

void Exposition::family(const char* name, const char* type, const char* help) {
  name_ = name;
  text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

void Exposition::sample(double value, const std::string& more_labels) {
  text_ +=
      fmt::format("{}{{{}{}{}}} {}\n", name_, labels_, more_labels.empty() ? "" : ",", more_labels, value);
}

void Exposition::gauge(const char* name, const char* help, double value) {
  family(name, "gauge", help);
  sample(value);
}

void Exposition::counter(const char* name, const char* help, std::uint64_t value) {
  family(name, "counter", help);
  sample(static_cast<double>(value));
}

}  // namespace rdmc::control_app
