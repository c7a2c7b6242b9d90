// What of a kubelet speaks with device plugins: it takes registrations at its socket, follows what each has, and gives devices to
// containers. As the real one it removes all other sockets of its folder when it starts.
import { createServer, type ServerHttp2Session } from "node:http2";
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { createClient, type Client } from "@connectrpc/connect";
import { connectNodeAdapter, createGrpcTransport } from "@connectrpc/connect-node";
import { ignore } from "@gpve/kit/background.ts";
import { Http2Sessions } from "@gpve/kit/grpc/http2-sessions.ts";
import { connectUnixSocket } from "@gpve/kit/unix-socket.ts";
import { DevicePlugin, Registration } from "../gen/proto/deviceplugin/device-plugin_pb.ts";
import { openSocketDoor } from "../infrastructure/vcluster/standby/socket-door.ts";

export interface NamedKubelet {
  /** Kind -> its devices and their health, as they were told last. */
  readonly devices: Map<string, Readonly<Record<string, string>>>;
  /** How often plugins of a kind came. */
  readonly registrations: string[];
  /** What the runtime is told of the devices of one container. */
  readonly allocate: (kind: string, ids: readonly string[]) => Promise<readonly string[]>;
  /** As when its machine loses power: its socket stays. */
  close(): void;
}

export async function startNamedKubelet(folder: string): Promise<NamedKubelet> {
  mkdirSync(folder, { recursive: true });
  for (const name of readdirSync(folder)) if (name.endsWith(".sock")) rmSync(join(folder, name));
  const devices: NamedKubelet["devices"] = new Map();
  const registrations: string[] = [];
  const clients = new Map<string, Client<typeof DevicePlugin>>();
  const sessions = new Set<Http2Sessions | ServerHttp2Session>();
  const follow = async (kind: string, client: Client<typeof DevicePlugin>): Promise<void> => {
    for await (const { devices: told } of client.listAndWatch({}))
      devices.set(kind, Object.fromEntries(told.map(({ ID, health }) => [ID, health])));
  };
  const server = createServer(
    connectNodeAdapter({
      routes: (router) =>
        router.service(Registration, {
          register: async ({ version, endpoint, resourceName }) => {
            if (version !== "v1beta1") throw new Error(`no version ${version}`);
            const socket = await connectUnixSocket(join(folder, endpoint));
            const url = "http://localhost";
            const session = new Http2Sessions(url, {}, { createConnection: () => socket });
            sessions.add(session);
            const client = createClient(
              DevicePlugin,
              createGrpcTransport({ baseUrl: url, sessionManager: session }),
            );
            await client.getDevicePluginOptions({});
            clients.set(resourceName, client);
            registrations.push(resourceName);
            follow(resourceName, client).catch((err: unknown) => ignore(err, "the plugin went"));
            return {};
          },
        }),
    }),
  );
  server.on("session", (session) => sessions.add(session));
  const door = await openSocketDoor(folder, { name: "kubelet.sock", mode: 0o600 }, (socket) =>
    server.emit("connection", socket),
  );
  return {
    devices,
    registrations,
    allocate: async (kind, ids) => {
      const asked = { containerRequests: [{ devicesIds: [...ids] }] };
      const { containerResponses } = (await clients.get(kind)?.allocate(asked)) ?? { containerResponses: [] };
      return containerResponses.flatMap(({ cdiDevices }) => cdiDevices.map(({ name }) => name));
    },
    close() {
      for (const session of sessions)
        if (session instanceof Http2Sessions) session.abort();
        else session.destroy();
      door.close();
    },
  };
}
