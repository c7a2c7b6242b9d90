// Name and password at a member of etcd: exchanged for a token that goes with every call. A token that the member has
// forgotten is replaced at the next try.
import { Code, ConnectError, createClient, type Interceptor, type Transport } from "@connectrpc/connect";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { Auth } from "../gen/proto/etcdserverpb/rpc_pb.ts";

export interface EtcdUser {
  readonly username: string;
  readonly password: string;
}

/** Members forget a token that was not used for five minutes; a stream shows it only when it begins. */
const STREAM_TOKEN_MS = 60_000;
const FORGOTTEN = "invalid auth token";

/** `plain` is a line to the same member that carries no token. */
export function tokenAuth(
  user: EtcdUser,
  plain: () => Transport,
  clock: Pick<Clock, "monotonic">,
): Interceptor {
  let known: { readonly token: Promise<string>; readonly at: number } | undefined;
  const token = (maxAgeMs: number): Promise<string> => {
    if (known !== undefined && clock.monotonic() - known.at <= maxAgeMs) return known.token;
    const asked = { token: authenticate(user, plain()), at: clock.monotonic() };
    known = asked;
    asked.token.catch(() => {
      if (known === asked) known = undefined;
    });
    return asked.token;
  };
  return (next) => async (request) => {
    request.header.set("token", await token(request.stream ? STREAM_TOKEN_MS : Number.POSITIVE_INFINITY));
    try {
      return await next(request);
    } catch (err) {
      if (isForgotten(err)) known = undefined;
      throw err;
    }
  };
}

export function isForgotten(err: unknown): boolean {
  const { code, rawMessage } = ConnectError.from(err);
  return code === Code.Unauthenticated && rawMessage.includes(FORGOTTEN);
}

async function authenticate({ username, password }: EtcdUser, transport: Transport): Promise<string> {
  try {
    return (await createClient(Auth, transport).authenticate({ name: username, password })).token;
  } catch (err) {
    const { rawMessage } = ConnectError.from(err);
    if (/authentication is not enabled/.test(rawMessage)) return "";
    if (/invalid user ID or password|user name is empty/.test(rawMessage))
      throw new AppError(
        "store.unavailable",
        `etcd does not let user '${username}' in: check cluster.etcd.username and cluster.etcd.password`,
        { cause: err },
      );
    throw err;
  }
}
