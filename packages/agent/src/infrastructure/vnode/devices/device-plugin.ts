// What tells a kubelet of devices: a device plugin as Kubernetes has it (v1beta1), on a socket beside the kubelet's own. It names
// the devices of a container as CDI does, and what they are in it is for containerd to read.
//
// A kubelet that starts removes all sockets of its folder: a plugin whose socket is gone is not known to it any more.
import { createHash } from "node:crypto";
import { createServer, type Http2Server } from "node:http2";
import { lstatSync } from "node:fs";
import { join } from "node:path";
import { Code, ConnectError, createClient, type ServiceImpl } from "@connectrpc/connect";
import { connectNodeAdapter, createGrpcTransport } from "@connectrpc/connect-node";
import { ignore } from "@gpve/kit/background.ts";
import { Http2Sessions } from "@gpve/kit/grpc/http2-sessions.ts";
import { connectUnixSocket, isNobodyListening } from "@gpve/kit/unix-socket.ts";
import {
  DevicePlugin as DevicePluginService,
  Registration,
} from "../../../gen/proto/deviceplugin/device-plugin_pb.ts";
import { openSocketDoor, type SocketDoor } from "../../vcluster/standby/socket-door.ts";

export interface OfferedDevice {
  readonly name: string;
  readonly isHealthy: boolean;
}

export interface PluginOffer {
  /** The kubelet's, `device-plugins` */
  readonly folder: string;
  readonly kind: string;
  readonly devices: readonly OfferedDevice[];
}

const KUBELET_SOCKET = "kubelet.sock";
const REGISTER_MS = 15_000;

export class DevicePlugin {
  readonly #kind: string;
  readonly #socket: string;
  readonly #kubelet: string;
  #devices: readonly OfferedDevice[];
  #change = Promise.withResolvers<void>();
  readonly #end = new AbortController();
  #door: SocketDoor | undefined;
  /** Which socket of a kubelet it was told at. */
  #toldAt = "";

  private constructor({ folder, kind, devices }: PluginOffer) {
    this.#kind = kind;
    this.#devices = devices;
    this.#kubelet = join(folder, KUBELET_SOCKET);
    this.#socket = join(folder, socketName(kind));
  }

  /** undefined: no kubelet is there to be told. */
  static async begin(offer: PluginOffer): Promise<DevicePlugin | undefined> {
    const plugin = new DevicePlugin(offer);
    const toldAt = identityOf(plugin.#kubelet);
    if (toldAt === undefined) return undefined;
    try {
      await plugin.#listen(offer.folder);
      await plugin.#register();
      plugin.#toldAt = toldAt;
      return plugin;
    } catch (err) {
      plugin.close();
      if (isNobodyListening(err)) return undefined;
      throw err;
    }
  }

  /** Whether the kubelet is the one that it was told to, and has not forgotten it. */
  isKnown(): boolean {
    return identityOf(this.#socket) !== undefined && identityOf(this.#kubelet) === this.#toldAt;
  }

  tell(devices: readonly OfferedDevice[]): void {
    const before = JSON.stringify(this.#shown());
    this.#devices = devices;
    if (JSON.stringify(this.#shown()) === before) return;
    this.#change.resolve();
    this.#change = Promise.withResolvers<void>();
  }

  close(): void {
    this.#end.abort();
    this.#change.resolve();
    this.#door?.close();
  }

  async #listen(folder: string): Promise<void> {
    const server = this.#server();
    const name = socketName(this.#kind);
    // Root alone speaks to it, as the kubelet is.
    this.#door = await openSocketDoor(folder, { name, mode: 0o600 }, (socket) =>
      server.emit("connection", socket),
    );
  }

  #server(): Http2Server {
    const handle = connectNodeAdapter({
      grpc: true,
      grpcWeb: false,
      connect: false,
      shutdownSignal: this.#end.signal,
      routes: (router) => router.service(DevicePluginService, this.#service()),
    });
    const server = createServer(handle);
    server.on("session", (session) => {
      session.on("error", (err) => ignore(err, "the kubelet went"));
    });
    return server;
  }

  #service(): Partial<ServiceImpl<typeof DevicePluginService>> {
    return {
      getDevicePluginOptions: () => ({}),
      listAndWatch: (_request, { signal }) => this.#list(signal),
      allocate: ({ containerRequests }) => ({
        containerResponses: containerRequests.map(({ devicesIds }) => ({
          cdiDevices: devicesIds.map((id) => ({ name: this.#named(id) })),
        })),
      }),
      preStartContainer: () => ({}),
    };
  }

  async *#list(signal: AbortSignal): AsyncGenerator<{ devices: { ID: string; health: string }[] }> {
    const gone = new Promise<void>((resolve) =>
      signal.addEventListener("abort", () => resolve(), { once: true }),
    );
    while (!signal.aborted && !this.#end.signal.aborted) {
      const change = this.#change.promise;
      yield { devices: this.#shown() };
      await Promise.race([change, gone]);
    }
  }

  #shown(): { ID: string; health: string }[] {
    return this.#devices.map(({ name, isHealthy }) => ({
      ID: name,
      health: isHealthy ? "Healthy" : "Unhealthy",
    }));
  }

  /** As CDI names it. */
  #named(id: string): string {
    if (this.#devices.some(({ name, isHealthy }) => name === id && isHealthy)) return `${this.#kind}=${id}`;
    throw new ConnectError(`${this.#kind} ${id} is not there, or not this worker's`, Code.FailedPrecondition);
  }

  async #register(): Promise<void> {
    const socket = await connectUnixSocket(this.#kubelet);
    // The name is nobody's: where it leads is the socket.
    const url = "http://localhost";
    const session = new Http2Sessions(url, {}, { createConnection: () => socket });
    try {
      const transport = createGrpcTransport({ baseUrl: url, sessionManager: session });
      const asked = { version: "v1beta1", endpoint: socketName(this.#kind), resourceName: this.#kind };
      await createClient(Registration, transport).register(asked, { timeoutMs: REGISTER_MS });
    } finally {
      session.abort();
      socket.destroy();
    }
  }
}

/** Short: a socket's path has 107 bytes. */
function socketName(kind: string): string {
  return `gpve-${createHash("md5").update(kind).digest("hex").slice(0, 12)}.sock`;
}

/** undefined: there is none. */
function identityOf(path: string): string | undefined {
  const found = lstatSync(path, { throwIfNoEntry: false });
  return found?.isSocket() === true ? `${found.dev} ${found.ino} ${found.ctimeMs}` : undefined;
}
