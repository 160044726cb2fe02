//! Routes and their description in one stroke: whatever is mounted here is in the OpenAPI document, and nothing else is.
//! It must never know what a route does.

use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodFilter, on};
use bytes::Bytes;
use goblin_api::{ErrorBody, NDJSON, events::EVENT_STREAM, routes::PREFIX};
use std::collections::{BTreeMap, BTreeSet};
use utoipa::openapi::path::{OperationBuilder, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{AllOfBuilder, ObjectBuilder, Schema, SchemaType, Type};
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::{
    ComponentsBuilder, ContentBuilder, HttpMethod, InfoBuilder, OpenApiBuilder, Paths, Ref, RefOr, Required,
    ResponseBuilder,
};
use utoipa::{PartialSchema, ToSchema};

/// The cookie of a session that began with a login.
const SESSION_COOKIE: &str = "node_goblin_session";

/// A status with the codes that come with it.
pub(crate) type Refusals = &'static [(u16, &'static [&'static str])];

/// Refusals of every route: a request that can be read in more ways than one, or gives a token away.
const HEAD: Refusals = &[
    (400, &["duplicate_header", "host_invalid", "token_in_query"]),
    (415, &["unsupported_media_type"]),
];

/// Refusals of every route that is not open to all.
const ACCESS: Refusals = &[
    (401, &["unauthorized"]),
    (
        403,
        &[
            "forbidden",
            "host_forbidden",
            "origin_forbidden",
            "csrf_header_required",
        ],
    ),
    (429, &["rate_limited"]),
];

/// A bug of ours.
const FAULT: Refusals = &[(500, &["internal_error"])];

/// Refusals of every route with a body.
const BODY: Refusals = &[
    (400, &["invalid_body", "invalid_json", "invalid_request"]),
    (408, &["request_timeout"]),
    (413, &["payload_too_large"]),
    (415, &["unsupported_media_type"]),
];

/// Refusals of every route with query parameters.
const QUERY: Refusals = &[(400, &["invalid_query"])];

/// Failures of every route that asks the store.
pub(crate) const STORE: Refusals = &[
    (503, &["store_unavailable"]),
    (500, &["store_corrupt", "secret_tampered", "setting_invalid"]),
];

/// Refusals of every route that writes to the store.
pub(crate) const STORED: Refusals = &[(400, &["record_name_invalid", "record_value_invalid"])];

/// Schemas by name.
type Schemas = BTreeMap<String, RefOr<Schema>>;

/// The description of one route.
pub(crate) struct Doc {
    summary: &'static str,
    open: bool,
    parameters: Vec<Parameter>,
    body: Option<(RefOr<Schema>, Required)>,
    status: u16,
    success: Vec<(&'static str, RefOr<Schema>)>,
    refusals: BTreeMap<u16, BTreeSet<&'static str>>,
    schemas: Schemas,
}

impl Doc {
    /// A route that needs a token or a session.
    pub(crate) fn of(summary: &'static str) -> Self {
        let doc = Self {
            summary,
            open: false,
            parameters: Vec::new(),
            body: None,
            status: 200,
            success: Vec::new(),
            refusals: BTreeMap::new(),
            schemas: Schemas::new(),
        };
        doc.refuses(HEAD).refuses(ACCESS).refuses(FAULT)
    }

    /// A route that is open to all.
    pub(crate) fn open(summary: &'static str) -> Self {
        let doc = Self {
            open: true,
            refusals: BTreeMap::new(),
            ..Self::of(summary)
        };
        doc.refuses(HEAD).refuses(FAULT)
    }

    /// It takes a JSON body.
    pub(crate) fn body<T: ToSchema>(self) -> Self {
        self.takes::<T>(Required::True)
    }

    /// It takes a JSON body that may be absent.
    pub(crate) fn optional_body<T: ToSchema>(self) -> Self {
        self.takes::<T>(Required::False)
    }

    fn takes<T: ToSchema>(mut self, required: Required) -> Self {
        self.body = Some((self.schema::<T>(), required));
        self.refuses(BODY)
    }

    /// It answers JSON with status 200.
    pub(crate) fn answers<T: ToSchema>(mut self) -> Self {
        let schema = self.schema::<T>();
        self.success.push(("application/json", schema));
        self
    }

    /// It answers JSON with status 201.
    pub(crate) fn creates<T: ToSchema>(mut self) -> Self {
        self.status = 201;
        self.answers::<T>()
    }

    /// It answers any JSON object.
    pub(crate) fn answers_object(mut self) -> Self {
        let schema = ObjectBuilder::new().schema_type(Type::Object).into();
        self.success.push(("application/json", schema));
        self
    }

    /// It answers text of this media type.
    pub(crate) fn answers_text(mut self, media_type: &'static str) -> Self {
        self.success.push((media_type, text().into()));
        self
    }

    /// It answers, when asked to, a line of JSON for each envelope.
    pub(crate) fn or_lines<Last: ToSchema>(self) -> Self {
        self.answers_text(NDJSON).mentions::<Last>()
    }

    /// It answers Server-Sent Events of these names; the schema is that of each event.
    pub(crate) fn answers_events(mut self, names: &[&str]) -> Self {
        let event = ObjectBuilder::new()
            .schema_type(Type::Object)
            .property("event", text().enum_values(Some(names.iter().copied())))
            .property("id", text())
            .property("data", text().description(Some("JSON")))
            .required("event")
            .required("data");
        self.success.push((EVENT_STREAM, event.into()));
        self
    }

    /// Texts in its answer hold JSON of this form.
    pub(crate) fn mentions<T: ToSchema>(mut self) -> Self {
        self.schema::<T>();
        self
    }

    /// It takes a query parameter, which is a text here: what it means is the route's matter.
    pub(crate) fn query(mut self, name: &str, description: &str) -> Self {
        let parameter = ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Query)
            .required(Required::False)
            .description(Some(description))
            .schema(Some(text()));
        self.parameters.push(parameter.build());
        self.refuses(QUERY)
    }

    /// It refuses so.
    pub(crate) fn refuses(mut self, refusals: Refusals) -> Self {
        for (status, codes) in refusals {
            self.refusals.entry(*status).or_default().extend(*codes);
        }
        self
    }

    /// A reference to the schema, which becomes a part of the document with all that it refers to.
    fn schema<T: ToSchema>(&mut self) -> RefOr<Schema> {
        let mut nested = vec![(T::name().into_owned(), T::schema())];
        T::schemas(&mut nested);
        self.schemas.extend(nested);
        Ref::from_schema_name(T::name()).into()
    }

    fn operation(self, id: String, path: &str) -> OperationBuilder {
        let mut operation = OperationBuilder::new()
            .operation_id(Some(id))
            .summary(Some(self.summary));
        for name in path.split('{').skip(1).filter_map(|rest| rest.split('}').next()) {
            operation = operation.parameter(path_parameter(name));
        }
        for parameter in self.parameters {
            operation = operation.parameter(parameter);
        }
        if let Some((schema, required)) = self.body {
            let body = RequestBodyBuilder::new()
                .content("application/json", ContentBuilder::new().schema(Some(schema)).build())
                .required(Some(required));
            operation = operation.request_body(Some(body.build()));
        }
        let mut success = ResponseBuilder::new().description("Done");
        for (media_type, schema) in self.success {
            success = success.content(media_type, ContentBuilder::new().schema(Some(schema)).build());
        }
        operation = operation.response(self.status.to_string(), success.build());
        for (status, codes) in &self.refusals {
            let listed: Vec<_> = codes.iter().map(|code| format!("`{code}`")).collect();
            let refusal = ResponseBuilder::new().description(listed.join(", ")).content(
                "application/json",
                ContentBuilder::new().schema(Some(refusal(codes))).build(),
            );
            operation = operation.response(status.to_string(), refusal.build());
        }
        if self.open {
            // No requirement at all is one that everybody meets.
            operation = operation.securities(Some([]));
        }
        operation
    }
}

/// An error body whose code is one of these.
fn refusal(codes: &BTreeSet<&'static str>) -> Schema {
    let code = text().enum_values(Some(codes.iter().copied()));
    AllOfBuilder::new()
        .item(Ref::from_schema_name(ErrorBody::name()))
        .item(ObjectBuilder::new().schema_type(Type::Object).property("error", code))
        .into()
}

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(SchemaType::Type(Type::String))
}

fn path_parameter(name: &str) -> Parameter {
    let pattern = match name {
        "operation_id" => "^[A-Za-z0-9][A-Za-z0-9._:-]{0,255}$",
        _ => "^[A-Za-z0-9][A-Za-z0-9._-]{0,254}$",
    };
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .schema(Some(text().pattern(Some(pattern))))
        .build()
}

/// Routes with their descriptions.
pub(crate) struct Routes<S> {
    router: Router<S>,
    description: Description,
}

/// What routes are described by. Routes of several states have one document.
pub(crate) struct Description {
    paths: Paths,
    schemas: Schemas,
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    pub(crate) fn new() -> Self {
        Self {
            router: Router::new(),
            description: Description {
                paths: Paths::new(),
                schemas: [(ErrorBody::name().into_owned(), ErrorBody::schema())].into(),
            },
        }
    }

    pub(crate) fn get<T: 'static>(self, path: &str, handler: impl Handler<T, S>, doc: Doc) -> Self {
        self.add(HttpMethod::Get, MethodFilter::GET, path, handler, doc)
    }

    pub(crate) fn post<T: 'static>(self, path: &str, handler: impl Handler<T, S>, doc: Doc) -> Self {
        self.add(HttpMethod::Post, MethodFilter::POST, path, handler, doc)
    }

    pub(crate) fn put<T: 'static>(self, path: &str, handler: impl Handler<T, S>, doc: Doc) -> Self {
        self.add(HttpMethod::Put, MethodFilter::PUT, path, handler, doc)
    }

    pub(crate) fn patch<T: 'static>(self, path: &str, handler: impl Handler<T, S>, doc: Doc) -> Self {
        self.add(HttpMethod::Patch, MethodFilter::PATCH, path, handler, doc)
    }

    pub(crate) fn delete<T: 'static>(self, path: &str, handler: impl Handler<T, S>, doc: Doc) -> Self {
        self.add(HttpMethod::Delete, MethodFilter::DELETE, path, handler, doc)
    }

    fn add<T: 'static>(
        mut self,
        method: HttpMethod,
        filter: MethodFilter,
        path: &str,
        handler: impl Handler<T, S>,
        mut doc: Doc,
    ) -> Self {
        self.description.schemas.append(&mut doc.schemas);
        let operation = doc.operation(operation_id(&method, path), path).build();
        self.description.paths.add_path_operation(path, vec![method], operation);
        self.router = self.router.route(path, on(filter, handler));
        self
    }

    /// The routes as a router.
    pub(crate) fn into_router(self) -> Router<S> {
        self.router
    }

    /// What describes them.
    pub(crate) fn into_description(self) -> Description {
        self.description
    }
}

impl Description {
    /// These and others.
    pub(crate) fn and(mut self, mut others: Self) -> Self {
        self.paths.merge(others.paths);
        self.schemas.append(&mut others.schemas);
        self
    }

    /// The document, as JSON.
    pub(crate) fn into_document(self) -> Bytes {
        let components = ComponentsBuilder::new()
            .schemas_from_iter(self.schemas)
            .security_scheme(
                "bearer",
                SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build()),
            )
            .security_scheme(
                "session",
                SecurityScheme::ApiKey(ApiKey::Cookie(ApiKeyValue::new(SESSION_COOKIE))),
            );
        let any_of = ["bearer", "session"].map(|name| SecurityRequirement::new(name, [""; 0]));
        let document = OpenApiBuilder::new()
            .info(
                InfoBuilder::new()
                    .title("Node Goblin controller")
                    .version(env!("CARGO_PKG_VERSION"))
                    .description(Some(
                        "Errors are `{ok:false, error:CODE}`. Over the controller's Unix socket no token is needed.",
                    )),
            )
            .paths(self.paths)
            .components(Some(components.build()))
            .security(Some(any_of))
            .build();
        // A document of texts and lists: writing it cannot fail.
        document.to_json().unwrap_or_default().into()
    }
}

/// `get_gateways`, `post_gateways_operations_cancel`: the method and the words of the path.
fn operation_id(method: &HttpMethod, path: &str) -> String {
    let method = match method {
        HttpMethod::Get => "get",
        HttpMethod::Post => "post",
        HttpMethod::Put => "put",
        HttpMethod::Patch => "patch",
        _ => "delete",
    };
    let below = path.strip_prefix(PREFIX).unwrap_or(path);
    let words = below.split(['/', '-', '.']).map(|word| match word.strip_prefix('{') {
        Some(_) => "one",
        None => word,
    });
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    format!("{method}_{}", words.join("_"))
}
