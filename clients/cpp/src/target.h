#ifndef XLASHAPE_SRC_TARGET_H_
#define XLASHAPE_SRC_TARGET_H_

#include <string>
#include <utility>
#include <vector>

namespace xlashape {

/// Host and port of HOST:PORT or [HOST]:PORT. Throws an Error for other text.
std::pair<std::string, std::string> Split(const std::string& address);

/// The target of gRPC that stands for some addresses: one as it is, several as a list of numeric addresses. Throws an Error if a name is not found.
std::string Target(const std::vector<std::string>& addresses);

}  // namespace xlashape

#endif  // XLASHAPE_SRC_TARGET_H_
