// Finds the way to a node's agent: in this process for the local one, over the network for the others.
import type { AgentConnection, AgentDirectory } from "@gpve/domain/node/agent-port.ts";
import type { NodeRecord } from "@gpve/domain/node/record.ts";
import type { Collection } from "@gpve/store/records/port.ts";

export interface RemoteAgentConnection extends AgentConnection {
  close(): void;
}

export interface DirectoryDeps {
  readonly nodes: Collection<NodeRecord>;
  /** The agent inside this process, in one-process mode. */
  readonly local?: AgentConnection;
  readonly connect: (record: NodeRecord) => RemoteAgentConnection;
}

export class NodeDirectory implements AgentDirectory {
  readonly #deps: DirectoryDeps;
  readonly #open = new Map<string, { target: string; connection: RemoteAgentConnection }>();
  readonly #unsubscribe: () => void;

  constructor(deps: DirectoryDeps) {
    this.#deps = deps;
    this.#unsubscribe = deps.nodes.onChange((id, entry) => {
      if (entry === undefined || this.#open.get(id)?.target !== targetOf(entry.value)) this.#drop(id);
    });
  }

  connection(node: string): AgentConnection | undefined {
    if (this.#deps.local?.node === node) return this.#deps.local;
    const record = this.#deps.nodes.get(node)?.value;
    if (record === undefined) return undefined;
    let open = this.#open.get(node);
    if (open === undefined) {
      open = { target: targetOf(record), connection: this.#deps.connect(record) };
      this.#open.set(node, open);
    }
    return open.connection;
  }

  /** Forgets all connections, for instance after this server got a new certificate. */
  reset(): void {
    for (const node of this.#open.keys()) this.#drop(node);
  }

  close(): void {
    this.#unsubscribe();
    this.reset();
  }

  #drop(node: string): void {
    this.#open.get(node)?.connection.close();
    this.#open.delete(node);
  }
}

function targetOf(record: NodeRecord): string {
  return `${record.address} ${record.port}`;
}
