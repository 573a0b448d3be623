package io.github.xlashape.kotlin

import io.github.xlashape.ConnectionOptions
import io.github.xlashape.Inputs
import io.github.xlashape.XlashapeClient
import io.github.xlashape.XlashapeException
import io.github.xlashape.v1.ByteSizeRequest
import io.github.xlashape.v1.ByteSizeResponse
import io.github.xlashape.v1.HloServiceGrpc
import io.github.xlashape.v1.Instruction
import io.github.xlashape.v1.ListInstructionsRequest
import io.github.xlashape.v1.ListInstructionsResponse
import io.github.xlashape.v1.Module
import io.github.xlashape.v1.MultiIndexRequest
import io.github.xlashape.v1.MultiIndexResponse
import io.github.xlashape.v1.ShapeServiceGrpc
import io.github.xlashape.v1.ShapeSize
import io.github.xlashape.v1.UploadModuleRequest
import io.github.xlashape.v1.UploadModuleResponse
import io.grpc.BindableService
import io.grpc.Grpc
import io.grpc.InsecureServerCredentials
import io.grpc.Server
import io.grpc.Status
import io.grpc.stub.ServerCallStreamObserver
import io.grpc.stub.StreamObserver
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.TimeoutCancellationException
import kotlinx.coroutines.async
import kotlinx.coroutines.awaitAll
import kotlinx.coroutines.flow.map
import kotlinx.coroutines.flow.take
import kotlinx.coroutines.flow.toList
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withTimeout
import org.junit.jupiter.api.AfterEach
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.Timeout
import org.junit.jupiter.api.assertThrows
import java.util.concurrent.CountDownLatch
import java.util.concurrent.TimeUnit

@Timeout(60)
class CoroutineClientTest {
    private val open = mutableListOf<AutoCloseable>()
    private val ended = CountDownLatch(1)

    @AfterEach
    fun close() = open.reversed().forEach { it.close() }

    private fun connected(vararg services: BindableService): CoroutineClient {
        val builder = Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create())
        services.forEach { builder.addService(it) }
        val server: Server = builder.build().start()
        open += AutoCloseable { server.shutdownNow() }
        val client = XlashapeClient.connect(ConnectionOptions.builder("127.0.0.1:${server.port}").build())
        open += client
        return client.coroutines()
    }

    /** Knows sizes by their text, the position 7 as padding, and never answers `silence`. */
    private val shapes = object : ShapeServiceGrpc.ShapeServiceImplBase() {
        override fun byteSize(request: ByteSizeRequest, observer: StreamObserver<ByteSizeResponse>) {
            val text = request.shapesList.single().text
            if (text == "silence") {
                (observer as ServerCallStreamObserver).setOnCancelHandler { ended.countDown() }
                return
            }
            val bytes = text.toLongOrNull() ?: return observer.onError(Status.INVALID_ARGUMENT.withDescription("no shape").asException())
            observer.onNext(ByteSizeResponse.newBuilder().addSizes(ShapeSize.newBuilder().setPhysicalBytes(bytes)).build())
            observer.onCompleted()
        }

        override fun multiIndex(request: MultiIndexRequest, observer: StreamObserver<MultiIndexResponse>) {
            val answer = MultiIndexResponse.newBuilder()
            for (position in request.positionsList) answer.addIndices(position).addIsElement(position != 7L)
            observer.onNext(answer.build())
            observer.onCompleted()
        }
    }

    /** Has two pages and one that never comes, and counts the bytes of uploads. */
    private val modules = object : HloServiceGrpc.HloServiceImplBase() {
        override fun listInstructions(request: ListInstructionsRequest, observer: StreamObserver<ListInstructionsResponse>) {
            if (request.pageToken == "silence") {
                (observer as ServerCallStreamObserver).setOnCancelHandler { ended.countDown() }
                return
            }
            if (request.pageToken == "second") return observer.onError(Status.NOT_FOUND.withDescription("gone").asException())
            val answer = ListInstructionsResponse.newBuilder().setNextPageToken("second")
            for (name in listOf("a", "b")) answer.addInstructions(Instruction.newBuilder().setName(name))
            observer.onNext(answer.build())
            observer.onCompleted()
        }

        override fun uploadModule(observer: StreamObserver<UploadModuleResponse>) = object : StreamObserver<UploadModuleRequest> {
            private var bytes = 0L

            override fun onNext(part: UploadModuleRequest) {
                bytes += part.data.size()
            }

            override fun onError(error: Throwable) = Unit

            override fun onCompleted() {
                observer.onNext(UploadModuleResponse.newBuilder().setModule(Module.newBuilder().setSizeBytes(bytes)).build())
                observer.onCompleted()
            }
        }
    }

    @Test
    fun `functions suspend until the answer is there`() = runBlocking {
        val client = connected(shapes)
        val sizes = (1..100).map { async(Dispatchers.Default) { client.byteSize(Inputs.shape("$it")).physicalBytes } }.awaitAll()
        assertEquals((1L..100L).toList(), sizes)
        assertEquals(listOf(5L), client.multiIndex(Inputs.shape("f32[9]"), 5)?.toList())
        assertNull(client.multiIndex(Inputs.shape("f32[9]"), 7))
    }

    @Test
    fun `errors are those of the client`() {
        val client = connected(shapes)
        val error = assertThrows<XlashapeException> { runBlocking { client.byteSize(Inputs.shape("?")) } }
        assertEquals(Status.Code.INVALID_ARGUMENT, error.code)
    }

    @Test
    fun `a coroutine that is cancelled cancels its call`() {
        val client = connected(shapes)
        assertThrows<TimeoutCancellationException> { runBlocking { withTimeout(300) { client.byteSize(Inputs.shape("silence")) } } }
        assertTrue(ended.await(30, TimeUnit.SECONDS))
    }

    @Test
    fun `a flow that waits can be cancelled`() {
        val silent = ListInstructionsRequest.newBuilder().setPageToken("silence").build()
        assertThrows<TimeoutCancellationException> {
            runBlocking { withTimeout(300) { connected(modules).listInstructions(silent).collect {} } }
        }
        assertTrue(ended.await(30, TimeUnit.SECONDS))
    }

    @Test
    fun `pages are fetched as they are needed`() {
        val client = connected(modules)
        val names = client.listInstructions(ListInstructionsRequest.getDefaultInstance()).map { it.name }
        assertEquals(listOf("a", "b"), runBlocking { names.take(2).toList() })
        assertEquals(Status.Code.NOT_FOUND, assertThrows<XlashapeException> { runBlocking { names.toList() } }.code)
    }

    @Test
    fun `uploads tell how far they are`() = runBlocking {
        val told = mutableListOf<Long>()
        val upload = connected(modules).uploadModule(ByteArray(2_500_000).inputStream()) { told += it }
        assertEquals(2_500_000, upload.module.sizeBytes)
        assertEquals(listOf(1L shl 20, 2L shl 20, 2_500_000), told)
    }
}
