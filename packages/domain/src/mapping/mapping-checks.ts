// What server and agent say to each other about mappings.

/** `onlyPlace`: a directory that is not there is no fault, only one that no guest may have. */
export const MAPPING_CHECK_ROUTE = "POST /gpve/nodes/{node}/mapping-checks";
