/** write: every call is audited. none: reads. secret: audited, and never with its parameters. */
export type AuditRule = "none" | "write" | "secret";

export interface RouteDecl {
  readonly audit: AuditRule;
  /** Where the code runs; default: the node in `proxyto`, else the server that was asked. */
  readonly runs?: "server" | "node";
  /**
   * The answer goes out as it came, with true and false where most of PVE's answers have 1 and 0: it is a guest's own,
   * QEMU's, or one of the few that PVE itself answers so.
   */
  readonly verbatim?: true;
}
