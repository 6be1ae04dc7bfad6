#include "apps/run/examples/example.hpp"

#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>

#include "apps/program/output.hpp"
#include "apps/units/option_values.hpp"

namespace rdmc::example {
namespace {

std::uint64_t hash_of(std::uint64_t number, std::uint64_t element) {
  const std::array words{number, element};
  return XXH3_64bits(words.data(), sizeof words);
}

}  // namespace

Options::Options(const std::string& program, const std::string& purpose)
    : app_(std::make_unique<CLI::App>(purpose, program)) {
  app_->set_version_flag("--version", program + " " RDMC_VERSION);
  app_->footer("The ranks are started with 'rdmc_run -n RANKS " + program +
               " ...'.\nWithout rdmc_run, this is a program of one rank. Rank 0 prints 'checksum HEX', the "
               "checksum\nof the result.\n\nExit codes:\n"
               "  0  the result is right\n  1  the result is wrong, or a message failed\n  2  wrong usage");
}

Options::~Options() = default;

void Options::add(const std::string& name, std::uint64_t& value, std::uint64_t most,
                  const std::string& what) {
  app_->add_option(name, value, what)
      ->transform(size_value())
      ->check(number_from<std::uint64_t>(1, most))
      ->capture_default_str()
      ->type_name("N");
}

std::optional<int> Options::read(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app_->exit(error) == 0 ? kRight : kUsage;
  }
  return std::nullopt;
}

void end_with(const Error& error) {
  complain(error);
  ::_exit(kWrong);  // The threads of the library still run, so no destructors may run.
}

Share share_of(std::uint64_t things, int shares, int index) {
  const auto all = static_cast<std::uint64_t>(shares), before = static_cast<std::uint64_t>(index);
  const std::uint64_t least = things / all, larger = things % all;
  return {.first = least * before + std::min(before, larger), .count = least + (before < larger ? 1 : 0)};
}

std::uint64_t checksum(std::uint64_t first, std::span<const std::uint64_t> elements) {
  std::uint64_t sum = 0;
  for (const std::uint64_t element : elements) sum += hash_of(first++, element);
  return sum;
}

std::uint64_t checksum(std::uint64_t first, std::span<const double> elements) {
  std::uint64_t sum = 0;
  for (const double element : elements) sum += hash_of(first++, std::bit_cast<std::uint64_t>(element));
  return sum;
}

double scattered(std::uint64_t number) {
  return static_cast<double>(hash_of(number, 0) >> 11) * 0x1p-53;
}

int conclude(replica::Job& job, std::uint64_t own_checksum, bool is_right) {
  replica::Communicator& world = job.world();
  std::array<std::uint64_t, 2> sums{own_checksum, is_right ? 0U : 1U};
  need(world.all_reduce(std::span<std::uint64_t>(sums), replica::Operation::sum));
  const auto [whole_checksum, wrong_ranks] = sums;
  if (wrong_ranks == 0 && world.rank() == 0) {
    std::printf("checksum %016llx\n", static_cast<unsigned long long>(whole_checksum));
    std::fflush(stdout);
  }
  if (!is_right) complain(fmt::format("rank {} has found its part of the result wrong", world.rank()));
  need(job.finish());
  return wrong_ranks == 0 ? kRight : kWrong;
}

}  // namespace rdmc::example
