// Writes the text format of Prometheus (exposition format 0.0.4), one metric family after the other.
#pragma once

#include <cstdint>
#include <string>

namespace rdmc::control_app {

/// Returns NAME="VALUE". Characters are escaped as the format requires.
std::string label(const std::string& name, const std::string& value);

class Exposition {
 public:
  /// `labels` are the labels of every series. There must be at least one label.
  explicit Exposition(std::string labels) : labels_(std::move(labels)) {}

  /// Begins a metric family. The following samples belong to it. `type` is "gauge" or "counter".
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
