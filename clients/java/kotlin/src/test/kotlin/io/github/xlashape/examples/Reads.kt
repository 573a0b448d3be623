package io.github.xlashape.examples

import io.github.xlashape.EvaluableMap
import io.github.xlashape.Inputs
import io.github.xlashape.XlashapeClient
import io.github.xlashape.XlashapeException
import io.github.xlashape.v1.IndexingMapsRequest
import java.nio.file.Path
import kotlin.system.exitProcess

/** Uploads an HLO module, and prints what its fusions read and where the first element of each read lies. */
fun main(arguments: Array<String>) {
    if (arguments.size != 2) {
        System.err.println("usage: Reads HOST:PORT FILE")
        exitProcess(2)
    }
    try {
        XlashapeClient.connect(arguments[0]).use { client ->
            val module = client.uploadModule(Path.of(arguments[1])).module
            val request =
                IndexingMapsRequest.newBuilder().setModule(Inputs.storedModule(module.name)).setStructured(true).build()
            for (row in client.indexingMapsRows(request)) {
                if (row.opcode != "fusion") continue
                println("${row.instruction} reads ${row.operandName}: ${first(EvaluableMap.of(row.indexing.map))}")
                println("  ${row.map}")
            }
        }
    } catch (refused: XlashapeException) {
        System.err.println("${refused.code} ${refused.reason}: ${refused.message}")
        exitProcess(1)
    }
}

/** The element that the first element of an output reads first. */
private fun first(map: EvaluableMap): String {
    val point = LongArray(map.variables())
    val element: LongArray? = map.evaluate(*point)
    return element?.joinToString() ?: "nothing"
}
