// Whom the node of a guest that moves asks whose the guest is.

export interface MoveServers {
  /** The node that owns the guest afterwards. Tried at every server; rejects when none answered. */
  handOver(move: MoveName, conf?: string): Promise<string>;
  /** The same, and no hand-over comes after it. */
  withdraw(move: MoveName): Promise<string>;
}

export interface MoveName {
  readonly vmid: number;
  readonly moveId: string;
}
