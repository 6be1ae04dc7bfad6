// The headers that every test program includes first. They are compiled only once for all programs, because
// they take a third of the compile time of a test. This file has no include guard: only the compiler includes
// it, and g++ 12 reports an error for a guard in a precompiled header.
#include <rapidcheck.h>

#include <algorithm>
#include <array>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <deque>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>
