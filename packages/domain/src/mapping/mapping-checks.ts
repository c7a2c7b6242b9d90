// What server and agent say to each other about mappings.

export const MAPPING_CHECK_ROUTE = "POST /gpve/nodes/{node}/mapping-checks";
