// What a certificate of a cluster may be used as: the organisation in its subject.
export const SERVER_ROLE = "gpve:server";
export const AGENT_ROLE = "gpve:agent";

/**
 * Certificates from elsewhere (a public CA in front of a server) have no role of ours; one that has another role than
 * a server's never speaks for a server, whoever vouches for it.
 */
export function hasForeignRole(organisation: unknown): boolean {
  const roles = Array.isArray(organisation) ? organisation : [organisation];
  return roles.some((role) => typeof role === "string" && role.startsWith("gpve:") && role !== SERVER_ROLE);
}
