// Early return of a failed Status; the only control flow that is hidden in macros.
#pragma once

#include <utility>

#include "simpler/status.h"

#define SIMPLER_RETURN_IF_ERROR(expression)                                           \
  do {                                                                                \
    if (::simpler::Status simpler_status_ = (expression); !simpler_status_.is_ok()) { \
      return simpler_status_;                                                         \
    }                                                                                 \
  } while (false)

// SIMPLER_ASSIGN_OR_RETURN(auto fd, open_file(path));  declares or assigns; not usable as the body of an unbraced `if`.
#define SIMPLER_ASSIGN_OR_RETURN(declaration, expression) \
  SIMPLER_INTERNAL_ASSIGN(SIMPLER_INTERNAL_JOIN(simpler_result_, __LINE__), declaration, expression)

#define SIMPLER_INTERNAL_ASSIGN(result, declaration, expression) \
  auto result = (expression);                                    \
  if (!result.ok()) return std::move(result).status();           \
  declaration = std::move(result).value()
#define SIMPLER_INTERNAL_JOIN(a, b) SIMPLER_INTERNAL_JOIN2(a, b)
#define SIMPLER_INTERNAL_JOIN2(a, b) a##b
