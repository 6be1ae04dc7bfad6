// The metrics of one scrape, as text for Prometheus: the text exposition format, version 0.0.4. One thread
// uses an object.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <cstdint>
#include <string>
#include <utility>

namespace rdmc {

class Exposition {
 public:
  /// Every series has `labels`.
  explicit Exposition(prometheus::Labels labels) : labels_(std::move(labels)) {}

  /// The series of one name, to which the caller adds those with further labels.
  auto& gauges(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Labels(labels_).Register(registry_);
  }
  auto& counters(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Labels(labels_).Register(registry_);
  }
  /// A single series.
  void gauge(const char* name, const char* help, double value) { gauges(name, help).Add({}).Set(value); }
  void counter(const char* name, const char* help, std::uint64_t value) {
    counters(name, help).Add({}).Increment(static_cast<double>(value));
  }
  std::string text() const { return prometheus::TextSerializer().Serialize(registry_.Collect()); }

 private:
  const prometheus::Labels labels_;
  prometheus::Registry registry_;
};

}  // namespace rdmc
