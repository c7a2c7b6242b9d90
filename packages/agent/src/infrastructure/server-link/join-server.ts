// Asks a server for what a further server of its cluster needs. The token proves who asks, and its fingerprint who answers.
import { createClient } from "@connectrpc/connect";
import { AppError } from "@gpve/contracts/errors.ts";
import { ServerService } from "@gpve/contracts/gen/proto/gpve/agent/v1/server_pb.ts";
import { parseJoinToken } from "@gpve/domain/node/record.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { appErrorOf } from "@gpve/kit/grpc/app-error.ts";
import { createChannel, rootMessage } from "@gpve/kit/grpc/channel.ts";
import { notTheServerAt } from "@gpve/kit/pki/server-role.ts";
import { fetchAuthority } from "./identity.ts";

/** Secrets: for files of mode 0600. Empty texts are what there is not. */
export interface ServerInvitation {
  readonly clusterName: string;
  readonly masterKey: string;
  readonly etcdEndpoints: readonly string[];
  readonly etcdCaPem: string;
  /** gpve runs etcd itself there; the new server is to do so as well. */
  readonly etcdCaKeyPem: string;
  readonly etcdCertPem: string;
  readonly etcdKeyPem: string;
  readonly etcdUsername: string;
  readonly etcdPassword: string;
}

const TIMEOUT_MS = 15_000;

export async function joinAsServer(asking: {
  readonly endpoint: string;
  readonly token: string;
  readonly name: string;
  readonly version: string;
  readonly clock: Clock;
}): Promise<ServerInvitation> {
  const { endpoint, token, name, version, clock } = asking;
  const parsed = parseJoinToken(token);
  if (parsed === undefined)
    throw new AppError(
      "config.invalid",
      "standard input holds no join token (gpve-join.…): make one with gpvectl server join-command",
    );
  const caPem = await fetchAuthority(endpoint, parsed.caFingerprint);
  const channel = createChannel({ url: endpoint, tls: { caPem }, clock, acceptPeer: notTheServerAt });
  try {
    return await createClient(ServerService, channel.transport).joinServer(
      { token, name, serverVersion: version, sentAtMs: BigInt(Math.trunc(clock.now())) },
      { timeoutMs: TIMEOUT_MS },
    );
  } catch (cause) {
    throw (
      appErrorOf(cause) ??
      new AppError("node.unavailable", `cannot join at ${endpoint}: ${rootMessage(cause)}`, { cause })
    );
  } finally {
    channel.close();
  }
}
