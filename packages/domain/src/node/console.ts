// What server and agent call a console between them.

export const CONSOLE_ROUTE = "POST /gpve/nodes/{node}/consoles";
export const CONSOLE_TARGET = "console";
