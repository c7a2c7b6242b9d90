// Any member of etcd's API, real or ours, with nothing between the test and the messages.
import { type Client, createClient } from "@connectrpc/connect";
import { Http2SessionManager, createGrpcTransport } from "@connectrpc/connect-node";
import { Auth, Cluster, KV, Lease, Maintenance, Watch } from "../gen/proto/etcdserverpb/rpc_pb.ts";

export interface EtcdClient {
  readonly kv: Client<typeof KV>;
  readonly watch: Client<typeof Watch>;
  readonly lease: Client<typeof Lease>;
  readonly maintenance: Client<typeof Maintenance>;
  readonly cluster: Client<typeof Cluster>;
  readonly auth: Client<typeof Auth>;
  close(): void;
}

export function connectEtcd(url: string): EtcdClient {
  const session = new Http2SessionManager(url);
  const transport = createGrpcTransport({ baseUrl: url, sessionManager: session });
  return {
    kv: createClient(KV, transport),
    watch: createClient(Watch, transport),
    lease: createClient(Lease, transport),
    maintenance: createClient(Maintenance, transport),
    cluster: createClient(Cluster, transport),
    auth: createClient(Auth, transport),
    close: () => session.abort(),
  };
}
