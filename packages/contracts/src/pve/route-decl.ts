/** write: every call is audited. none: reads. secret: audited, and never with its parameters. */
export type AuditRule = "none" | "write" | "secret";

export interface RouteDecl {
  readonly audit: AuditRule;
  /** Where the code runs; default: the node in `proxyto`, else the server that was asked. */
  readonly runs?: "server" | "node";
  /**
   * The answer goes out as it came: it is a guest's own, or QEMU's, with true and false where PVE's own answers have 1
   * and 0.
   */
  readonly verbatim?: true;
}
