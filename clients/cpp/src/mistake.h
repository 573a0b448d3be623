#ifndef XLASHAPE_SRC_MISTAKE_H_
#define XLASHAPE_SRC_MISTAKE_H_

#include <string>

namespace xlashape {

/// Throws an Error that the client finds by itself. Its code is INVALID_ARGUMENT.
[[noreturn]] void Refuse(std::string reason, std::string field, std::string message);

}  // namespace xlashape

#endif  // XLASHAPE_SRC_MISTAKE_H_
