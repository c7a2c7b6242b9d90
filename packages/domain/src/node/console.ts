// What server and agent call a console between them.

export const CONSOLE_ROUTE = "POST /gpve/nodes/{node}/consoles";
export const CONSOLE_TARGET = "console";

export const SHELL_ROUTE = "POST /gpve/nodes/{node}/shells";

export const SPICE_ROUTE = "POST /gpve/nodes/{node}/spice";
export const SPICE_TARGET = "spice";
