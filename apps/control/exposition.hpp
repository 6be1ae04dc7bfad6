// The text that Prometheus reads (exposition format 0.0.4), written one family after the other.
#pragma once

#include <cstdint>
#include <string>

namespace rdmc::control_app {

/// NAME="VALUE", with what the format wants escaped.
std::string label(const std::string& name, const std::string& value);

class Exposition {
 public:
  /// `labels`: of every series; at least one.
  explicit Exposition(std::string labels) : labels_(std::move(labels)) {}

  /// The samples that follow are of this one. `type`: "gauge" or "counter".
  void family(const char* name, const char* type, const char* help);
  void sample(double value, const std::string& more_labels = {});
  void gauge(const char* name, const char* help, double value);
  void counter(const char* name, const char* help, std::uint64_t value);
  std::string take() { return std::move(text_); }

 private:
  const std::string labels_;
  std::string name_, text_;
};

}  // namespace rdmc::control_app
