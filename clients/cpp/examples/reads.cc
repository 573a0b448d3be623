// Uploads an HLO module and prints what its fusions read.
//
//   xlashape_reads localhost:50051 attention.hlo.pb

#include <xlashape/client.h>

#include <iostream>

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::cerr << "usage: xlashape_reads HOST:PORT FILE\n";
    return 2;
  }
  const xlashape::Client client(argv[1]);
  xlashape::v1::OperandReadsRequest request;
  request.mutable_module()->set_name(client.UploadModuleFile(argv[2]).module.name());
  request.set_report_errors(true);
  for (const auto& answer : client.OperandReads(request)) {
    if (answer.opcode() != "fusion") continue;
    std::cout << answer.instruction() << "\n";
    if (answer.has_error()) std::cout << "  " << answer.error().message() << "\n";
    for (const auto& read : answer.reads()) {
      std::cout << "  " << read.operand_name() << ": ";
      if (read.has_distinct_elements()) {
        std::cout << read.distinct_elements();
      } else {
        std::cout << "an unknown number";
      }
      std::cout << " of " << read.elements() << " elements\n";
      for (const auto& access : read.accesses()) std::cout << "    " << access.map().text() << "\n";
    }
  }
} catch (const xlashape::Error& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
