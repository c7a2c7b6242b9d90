// A member of etcd's API in front of any Store, whose calls a test can hold up, refuse or lose.
import type { Interceptor } from "@connectrpc/connect";
import { type EtcdListener, listenEtcd } from "../etcd-server/listen.ts";
import type { Store } from "../port.ts";

export interface FakeEtcd {
  readonly url: string;
  /** Runs before each call; may throw what a real member would answer, or hang. */
  intercept: (method: string) => Promise<void>;
  /** Runs after a call took effect, before its answer is sent. */
  beforeAnswer: (method: string) => Promise<void>;
  /** Cuts all connections and stops listening. */
  down(): Promise<void>;
  /** Listens again on the same port. */
  up(): Promise<void>;
}

export async function startFakeEtcd(store: Store): Promise<FakeEtcd> {
  const nothing = async (): Promise<void> => undefined;
  const interceptor: Interceptor = (next) => async (request) => {
    const method = request.method.localName;
    await fake.intercept(method);
    const answer = await next(request);
    if (!request.stream) await fake.beforeAnswer(method);
    return answer;
  };
  const open = (port: number): Promise<EtcdListener> =>
    listenEtcd({
      store,
      name: "fake",
      listen: { host: "127.0.0.1", port },
      interceptors: [interceptor],
    });
  let listener = await open(0);
  const { url } = listener;
  const fake: FakeEtcd = {
    url,
    intercept: nothing,
    beforeAnswer: nothing,
    down: () => listener.close(),
    async up() {
      listener = await open(Number(new URL(url).port));
    },
  };
  return fake;
}
