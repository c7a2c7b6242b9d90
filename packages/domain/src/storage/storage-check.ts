// What server and agent say to each other about a storage that is about to be defined.

/**
 * `definition`: activated on the node as it would be; nothing is kept of it. `onlyPlace`: nothing is made either, it is
 * only looked whether its directories may be a storage's.
 */
export const STORAGE_CHECK_ROUTE = "POST /gpve/nodes/{node}/storage-checks";
